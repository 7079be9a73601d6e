# Installs the package, does what somebody new does with it, and purges it.
dpkg -i /run/given/penstock.deb
getent group penstock

# What is read first.
MANWIDTH=80 man penstock | grep -q 'What looks:    ls, stat'
# An example stands in one line, so that it can be copied.
MANWIDTH=80 man penstock-sync | grep -q '^ *penstock sync --delete --max-delete 100 -n nfs://one/data nfs://two/data$'
test -s /usr/share/doc/penstock/README.md
bash -c '. /usr/share/bash-completion/completions/penstock && complete -p penstock'
for unit in penstock.service penstock.socket; do
	systemd-analyze verify --man=no "/usr/lib/systemd/system/$unit" 2>&1 | grep penstock && exit 1
done

# Served as the unit serves it.
mkdir -p /srv/files
chmod 1777 /srv/files
penstock check /etc/penstock/penstock.toml
line=$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/penstock.service)
$line > /tmp/served 2>&1 &
server=$!
patience=100
until penstock status > /tmp/status 2>&1; do
	kill -0 $server || { cat /tmp/served; exit 1; }
	patience=$((patience - 1))
	test $patience -gt 0 || { cat /tmp/served /tmp/status; exit 1; }
	sleep 0.1
done
test "$(stat -c %a%G /var/lib/penstock/main/status.sock)" = 660penstock

# Copied to, listed, mirrored and mounted.
penstock cp -r /usr/share/doc/penstock nfs://127.0.0.1/files/
penstock ls -l nfs://127.0.0.1/files/penstock | grep -q README.md
penstock sync nfs://127.0.0.1/files/penstock /tmp/mirror
diff -r /usr/share/doc/penstock /tmp/mirror
mkdir /tmp/mounted
penstock mount nfs://127.0.0.1/ /tmp/mounted &
until mountpoint -q /tmp/mounted; do
	kill -0 $!
	sleep 0.1
done
cmp /tmp/mounted/files/penstock/README.md /usr/share/doc/penstock/README.md
echo 'written through the mount' > /tmp/mounted/files/kept
umount /tmp/mounted
wait $!
mount -t fuse.penstock -o _netdev nfs://127.0.0.1/ /tmp/mounted
cmp /tmp/mounted/files/penstock/README.md /usr/share/doc/penstock/README.md
umount /tmp/mounted
penstock rm -r nfs://127.0.0.1/files/penstock

# An upgrade leaves the state and the configuration.
echo '# changed' >> /etc/penstock/penstock.toml
kill $server
wait $server
key=$(cksum < /var/lib/penstock/main/handle.key)
dpkg -i /run/given/penstock.deb
test "$key" = "$(cksum < /var/lib/penstock/main/handle.key)"
grep -q '# changed' /etc/penstock/penstock.toml

# Removed, it leaves what an administrator made; purged, only what was served.
dpkg -r penstock
test ! -e /usr/bin/penstock
test -e /var/lib/penstock/main/handle.key
dpkg -P penstock
if getent group penstock; then exit 1; fi
test "$(cat /srv/files/kept)" = 'written through the mount'
