cat > /etc/penstock.toml <<'END'
[server]
listen = ["10.0.0.1:2049", "10.0.0.2:2049", "10.0.0.3:2049"]
rpcbind = false
[[export]]
path = "/srv/export"
pseudo = "/export"
clients = ["10.0.0.0/8"]
squash = "none"
[[export]]
path = "/srv/backup"
pseudo = "/backup"
clients = ["10.0.0.0/8"]
squash = "none"
END
mkdir -p /srv/export/scratch /srv/export/photos /srv/export/data /srv/backup photos src data
for directory in /srv/export/photos /srv/export/data photos src data; do
	head -c 100000 /dev/urandom > "$directory/one"
	echo content > "$directory/two"
done
touch -d '9 days ago' /srv/export/scratch/old.tmp
serve /etc/penstock.toml
penstock mount --background nfs://server/export /mnt
head -c 40000000 /dev/zero > /mnt/zeros
cat /mnt/zeros > copied
if cat /mnt/none; then exit 1; fi
