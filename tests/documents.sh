#!/bin/sh
# Runs the examples of a document: each line "$ gridsmith ..." of a console block must print what follows it. White space
# does not matter, because long lines are folded.
#
#   sh tests/documents.sh PROGRAM SOURCE_DIR DOCUMENT...
set -u
program=$1
cd "$2" || exit 1
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Writes each example to a file of its own: the command, then the output.
split() {
    awk -v work="$work" '
        /^```console/ { inside = 1; next }
        /^```/ { inside = 0; next }
        inside && /^\$ gridsmith / { file = sprintf("%s/example%03d", work, ++count); print substr($0, 3) >file; next }
        inside { print >>file }' "$1"
}

squeeze() {
    tr -s ' \n' '  '
}

examples=0
failed=0
for document; do
    rm -f "$work"/example*
    split "$document"
    for example in "$work"/example*; do
        [ -e "$example" ] || continue
        examples=$((examples + 1))
        command=$(head -n 1 "$example" | sed "s|^gridsmith|'$program'|")
        sh -c "$command" 2>&1 </dev/null | squeeze >"$work/found"
        tail -n +2 "$example" | squeeze >"$work/wanted"
        if ! cmp -s "$work/found" "$work/wanted"; then
            failed=$((failed + 1))
            echo "FAILED $document: $(head -n 1 "$example")"
            cat "$work/found"
            echo
        fi
    done
done
echo "$examples examples, $failed failed"
[ "$examples" -gt 0 ] && [ "$failed" = 0 ]
