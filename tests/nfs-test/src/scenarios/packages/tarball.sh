# Unpacks the tarball, does what somebody new does with it, and removes it.
tar -tzf /run/given/penstock.tar.gz | grep -v '/$' | cut -d/ -f2- > /tmp/files
tar -C /usr/local --strip-components=1 -xzf /run/given/penstock.tar.gz
grep -q '^ExecStart=/usr/local/bin/penstock ' /usr/local/lib/systemd/system/penstock.service
MANWIDTH=80 man penstock-sync | grep -q 'penstock sync photos'
systemd-analyze verify --man=no /usr/local/lib/systemd/system/penstock.service 2>&1 | grep penstock && exit 1

mkdir -p /srv/files
chmod 1777 /srv/files
penstock serve /srv --state-dir /tmp/state > /tmp/served 2>&1 &
server=$!
until penstock ping nfs://127.0.0.1/ -c 1 > /tmp/ping 2>&1; do
	kill -0 $server || { cat /tmp/served; exit 1; }
	sleep 0.1
done
penstock cp -r /usr/local/share/doc/penstock nfs://127.0.0.1/files/
penstock cp -r nfs://127.0.0.1/files/penstock /tmp/back
diff -r /usr/local/share/doc/penstock /tmp/back
penstock sync nfs://127.0.0.1/files/penstock /tmp/mirror
diff -r /usr/local/share/doc/penstock /tmp/mirror
mkdir /tmp/mounted
penstock mount --background nfs://127.0.0.1/ /tmp/mounted
cmp /tmp/mounted/files/penstock/README.md /usr/local/share/doc/penstock/README.md
umount /tmp/mounted
echo 'through the server' | penstock put nfs://127.0.0.1/files/kept
penstock rm -r nfs://127.0.0.1/files/penstock
kill $server
wait $server

# systemd listens, and starts the server with the first connection.
systemd-socket-activate -l 127.0.0.1:2050 \
	/usr/local/bin/penstock serve /srv --state-dir /tmp/state --no-rpcbind > /tmp/activated 2>&1 &
activated=$!
until penstock cat nfs://127.0.0.1:2050/files/kept > /tmp/kept 2>/tmp/error; do
	kill -0 $activated || { cat /tmp/activated /tmp/error; exit 1; }
	sleep 0.1
done
grep -q 'through the server' /tmp/kept
kill $activated
wait $activated

(cd /usr/local && xargs rm < /tmp/files)
