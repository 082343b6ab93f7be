# checks.sh: what scripts of tests share. They read it first:
#
#   . "$(dirname "$0")/../support/checks.sh"
#
# $work is a folder for the script, removed at its end; the output of the last command is in its files `out` and `err`. A script
# ends with `finish WORDS`.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# fail WORDS: something is wrong. Shows the beginning of the output.
fail() {
    failed=$((failed + 1))
    echo "FAILED $*"
    cat "$work/out" "$work/err" 2>/dev/null | head -n 12 | cut -c1-200 | sed 's/^/    /'
}

# check NAME EXIT_CODE COMMAND...: runs a command.
check() {
    name=$1 wanted=$2
    shift 2
    "$@" >"$work/out" 2>"$work/err" </dev/null
    found=$?
    [ "$found" = "$wanted" ] || fail "$name: exit code $found, not $wanted"
}

# says WORDS: the output of the last command contains them.
says() {
    grep -qF -- "$1" "$work/out" "$work/err" || fail "$name: does not say \"$1\""
}

# is_one_line: the last command printed one line, on standard error.
is_one_line() {
    [ "$(wc -l <"$work/err")" = 1 ] && [ ! -s "$work/out" ] ||
        fail "$name: $(wc -l <"$work/err") lines on standard error, $(wc -c <"$work/out") bytes on standard output"
}

# finish WORDS: ends the script, with these words if nothing was wrong.
finish() {
    [ "$failed" = 0 ] && echo "$*"
    exit $((failed > 0))
}
