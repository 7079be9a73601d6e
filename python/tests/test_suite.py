"""fsspec's own tests of file systems, over each version of NFS."""

import fsspec
import pytest
from fsspec.tests.abstract import (
    AbstractCopyTests,
    AbstractFixtures,
    AbstractGetTests,
    AbstractOpenTests,
    AbstractPipeTests,
    AbstractPutTests,
)


class Fixtures(AbstractFixtures):
    @pytest.fixture
    def fs(self, penstock, version):
        # The suite writes into directories that it has not made, as object stores allow.
        return fsspec.filesystem("nfs", auto_mkdir=True, **penstock.options(version))

    @pytest.fixture
    def fs_path(self, place):
        return place


class TestCopy(Fixtures, AbstractCopyTests):
    pass


class TestGet(Fixtures, AbstractGetTests):
    pass


class TestPut(Fixtures, AbstractPutTests):
    pass


class TestOpen(Fixtures, AbstractOpenTests):
    pass


class TestPipe(Fixtures, AbstractPipeTests):
    pass
