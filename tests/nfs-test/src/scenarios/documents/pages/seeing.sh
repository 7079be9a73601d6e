penstock serve /srv/data --listen 127.0.0.1:0 --no-rpcbind --state-dir /var/lib/penstock/srv > /run/given/served 2>&1 &
until penstock status > /run/given/status 2>&1; do
	kill -0 $!
	sleep 0.1
done
