mkdir -p data/some some/tree
echo content > data/some/file
echo content > some/tree/file
head -c 2000000 /dev/urandom > data/model.ckpt
