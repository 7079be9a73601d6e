# In namespaces of its own: $1 is the directory with the Containerfile, $2 an empty one for what is made of it. The
# client is the same program, outside the container.
exec 1>&2
ip link set lo up
penstock=$1/penstock
work=$2
mkdir "$work/srv" "$work/state" "$work/mounted"
echo 'in the volume' > "$work/srv/file"

builder() { buildah --storage-driver vfs --root "$work/images" --runroot "$work/run" "$@"; }
builder build --quiet --isolation chroot --tag penstock "$1"
builder inspect --type image penstock > "$work/image.json"
jq -e '.OCIv1.config.Volumes | keys == ["/srv", "/var/lib/penstock"]' "$work/image.json"
# A builder's container runs what it is told, and not the image's command: that is read from the image.
eval "set -- $(jq -r '.OCIv1.config | .Entrypoint + .Cmd | @sh' "$work/image.json")"

# Starts a new container from the image, with the volumes of the one before.
serve() {
	container=$(builder from penstock)
	# What runs images puts a given volume in the place of the image's own. This builder would mount its own above it.
	builder config --volume /srv- --volume /var/lib/penstock- "$container"
	builder run --isolation chroot --volume "$work/srv:/srv" --volume "$work/state:/var/lib/penstock" \
		"$container" -- "$@" > "$work/served" 2>&1 &
	running=$!
	until "$penstock" cat nfs://127.0.0.1/file > "$work/file" 2> "$work/error"; do
		kill -0 $running || { cat "$work/served" "$work/error"; exit 1; }
		sleep 0.1
	done
	grep -q 'in the volume' "$work/file"
}

# Ends the server as a container's end does. Nobody else in these namespaces has this command.
stop() {
	kill "$(pgrep -fx '/usr/bin/penstock serve /srv .*')"
	wait $running
	builder rm "$container"
}

serve "$@"
"$penstock" mount --background nfs://127.0.0.1/ "$work/mounted"
grep -q 'in the volume' "$work/mounted/file"
mkfifo "$work/served-again"
{ read -r _ < "$work/served-again"; grep -q 'in the volume'; } < "$work/mounted/file" &
reader=$!
stop
# Handles are in the state volume: a file that a client has open is read on.
serve "$@"
echo > "$work/served-again"
wait $reader
umount "$work/mounted"
stop
