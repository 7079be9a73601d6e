# What every page finds: the program, names of servers and their addresses, a disk with XFS at /srv, and a directory
# to work in.
ln -sf /run/given/penstock /usr/bin/penstock
printf '%s\n' '127.0.0.1 localhost' '10.0.0.1 server' '10.0.0.2 one' '10.0.0.3 two' > /etc/hosts
for address in 10.0.0.1 10.0.0.2 10.0.0.3; do
	ip address add "$address/24" dev lo
done
truncate -s 512M /run/given/disk
mkfs.xfs -q /run/given/disk
mount -o loop /run/given/disk /srv
mkdir -p /srv/data /srv/pub /srv/here
cd /srv/here

# The program that is tested stands for the one that cargo would build first.
cat > /usr/local/bin/cargo <<'END'
#!/bin/sh -eu
test "$1 $2 $3" = 'run --release --'
shift 3
exec penstock "$@"
END
chmod 755 /usr/local/bin/cargo

# Starts a server with this configuration and waits until it answers.
serve() {
	penstock serve --config "$1" > /run/given/served 2>&1 &
	server=$!
	until penstock status > /run/given/status 2>&1; do
		kill -0 $server || { cat /run/given/served >&2; exit 1; }
		sleep 0.1
	done
}

# Checks the page's configuration of this number, where an administrator has it.
check() {
	mkdir -p /etc/penstock
	cp "/run/given/toml.$1" /etc/penstock/penstock.toml
	penstock check /etc/penstock/penstock.toml
}

# Ends what a page starts and does not end.
going_on=
end() {
	test -z "$going_on" || kill "$going_on"
	test -z "$going_on" || wait "$going_on" || true
	going_on=
}
