echo '/srv/data 10.0.0.0/8(rw,no_subtree_check)' > /etc/exports
mkdir -p /etc/ganesha
cat > /etc/ganesha/ganesha.conf <<'END'
EXPORT {
	Export_Id = 1;
	Path = /srv/data;
	Pseudo = /data;
	Protocols = 3, 4;
	FSAL { Name = VFS; }
	CLIENT { Clients = 10.0.0.0/8; Access_Type = RW; }
}
END
