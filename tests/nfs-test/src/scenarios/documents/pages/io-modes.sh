# The page's own configuration is what it is about; DIR stands for any directory.
mkdir DIR
chmod 1777 /srv/data
head -c 67108864 /dev/urandom > /srv/data/model.ckpt
cp /srv/data/model.ckpt /srv/data/other
mkdir -p /etc/penstock
cp /run/given/toml.1 /etc/penstock/penstock.toml
serve /etc/penstock/penstock.toml
# Read, and written with a last WRITE of odd length.
penstock cat nfs://127.0.0.1/data/other > copy
head -c 2999999 copy | penstock put nfs://127.0.0.1/data/new
