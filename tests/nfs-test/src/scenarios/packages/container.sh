# In namespaces of its own: $1 is the image's root, what follows its command. Another run of the program is the client.
exec 1>&2
ip link set lo up
root=$1
shift
# As every container has it.
mkdir "$root/proc"
mount -t proc proc "$root/proc"
chroot "$root" "$@" > "$root.served" 2>&1 &
server=$!
until chroot "$root" /usr/bin/penstock cat nfs://127.0.0.1/file > "$root.file" 2> "$root.error"; do
	kill -0 $server || { cat "$root.served" "$root.error" >&2; exit 1; }
	sleep 0.1
done
grep -q 'in the volume' "$root.file"
kill $server
wait $server
