# In namespaces of its own: $1 holds the directories of the copy. Mounts are gone with the last process.
exec 1>&2
ip link set lo up
mount -t overlay -o "lowerdir=/,upperdir=$1/changes,workdir=$1/work" overlay "$1/whole"
mount --rbind /dev "$1/whole/dev"
mount -t proc proc "$1/whole/proc"
mount -t sysfs sysfs "$1/whole/sys"
mount -t tmpfs tmpfs "$1/whole/run"
mount -t tmpfs tmpfs "$1/whole/tmp"
mkdir "$1/whole/run/given"
mount --rbind "$1/given" "$1/whole/run/given"
exec env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 \
	chroot "$1/whole" sh -eux /run/given/script
