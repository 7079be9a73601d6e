# Addresses are completed by asking their servers; everything else by the above.
_penstock_or_address() {
    if [[ $PREFIX == nfs://* || $PREFIX == *:/* ]]; then
        local -a found directories files
        found=("${(@f)$(_call_program addresses ${(q)words[1]} complete -- ${(q)PREFIX} 2>/dev/null)}")
        directories=(${(M)found:#*/})
        files=(${found:#*/})
        # Another name follows that of a directory.
        (( $#directories )) && compadd -S '' -- $directories
        (( $#files )) && compadd -- $files
        return 0
    fi
    _penstock "$@"
}

if [ "$funcstack[1]" = "_penstock" ]; then
    _penstock_or_address "$@"
    compdef _penstock_or_address penstock
else
    compdef _penstock_or_address penstock
fi
