cat > /etc/penstock.toml <<'END'
[server]
listen = ["10.0.0.1:2049"]
rpcbind = false
[[export]]
path = "/srv/data"
pseudo = "/data"
clients = ["10.0.0.0/8"]
audit = "changes"
END
serve /etc/penstock.toml
mkdir /srv/data/a
echo content > /srv/data/a/draft
echo content > /srv/data/a/other.doc
chown -R 1000 /srv/data
penstock mv 'nfs://server/data/a/draft?uid=1000' 'nfs://server/data/final?uid=1000'
if penstock rmdir 'nfs://server/data/a?uid=1000'; then exit 1; fi
penstock rm 'nfs://server/data/a/other.doc?uid=1000'
