
# Addresses are completed by asking their servers; everything else by the above.
complete -c penstock -f -n "string match -qr '^(nfs://|[^/]+:/)' -- (commandline -ct)" -a "(penstock complete -- (commandline -ct) 2>/dev/null)"
