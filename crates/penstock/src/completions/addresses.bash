
# Addresses are completed by asking their servers; everything else by the above.
_penstock_address() {
    # The word as it is typed: COMP_WORDS has it cut at each of COMP_WORDBREAKS.
    local word=${COMP_LINE:0:COMP_POINT}
    word=${word##*[[:space:]\"\']}
    case $word in
        nfs://* | *:/*) ;;
        *) return 1 ;;
    esac
    local IFS=$'\n'
    COMPREPLY=($("$1" complete -- "$word" 2>/dev/null))
    # What stands before the last of these characters stays on the line.
    local last=${word##*[:=@]}
    local kept=${word%"$last"}
    COMPREPLY=("${COMPREPLY[@]#"$kept"}")
    # Another name follows that of a directory.
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace 2>/dev/null
    return 0
}

_penstock_or_address() {
    _penstock_address "$@" || _penstock "$@"
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _penstock_or_address -o nosort -o bashdefault -o default penstock
else
    complete -F _penstock_or_address -o bashdefault -o default penstock
fi
