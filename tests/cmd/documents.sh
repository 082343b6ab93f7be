#!/bin/sh
# Runs the examples of documents: in a block marked `console`, each line "$ COMMAND" must print the lines that follow it. White
# space does not matter, because long lines are folded. A line "..." stands for any lines. The commands of a document run one
# after the other in a folder of their own, in which the files of the source tree are. What needs a GPU or a daemon, or prints
# times, is in blocks of another kind. A block marked `json NAME` is a file of that name. In man pages, the examples that show
# an output are run.
#
#   sh tests/cmd/documents.sh PROGRAM SOURCE_DIR DOCUMENT...
set -u
program=$1
source_dir=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$program" "$work/bin/gridsmith"
PATH=$work/bin:$PATH
export PATH

# A man page as such a document.
page() {
    sed 's/\\-/-/g; s/\\e/\\/g; s/^\\&//; s/^\.Bd -literal.*/```console/; s/^\.Ed/```/' "$1" |
        awk '/^```console/ { inside = 1 } /^```$/ { inside = 0 } inside && /^\$ / { kept = $0; next }
             inside && kept != "" && !/^```/ { print kept; kept = "" } /^```/ { kept = "" } { print }'
}

# Writes each example to a file of its own: the command, which may go on after a backslash, then the output.
split() {
    awk -v work="$work" '
        /^```json [a-z.]+$/ { saved = work "/place/" $2; next }
        /^```console/ { inside = 1; next }
        /^```/ { inside = 0; saved = ""; next }
        saved != "" { print >saved }
        inside && more { print >>file; more = /\\$/; next }
        inside && /^\$ / { file = sprintf("%s/example%03d", work, ++count); print substr($0, 3) >file; more = /\\$/
                           output = file ".wanted"; printf "" >output; next }
        inside && output != "" { print >>output }' "$1"
}

# A text without white space. A line "..." becomes the byte 1.
squeeze() {
    sed 's/^\.\.\.$/\x01/' | tr -d ' \t\n'
}

# matches FOUND WANTED
matches() {
    awk -v wanted_file="$2" -v found_file="$1" 'BEGIN {
        getline wanted <wanted_file
        getline found <found_file
        parts = split(wanted, part, "\001")
        if (parts == 1) exit part[1] != found
        for (i = 1; i < parts; i++) {
            at = part[i] == "" ? 1 : index(found, part[i])
            if (!at || (i == 1 && at != 1)) exit 1
            found = substr(found, at + length(part[i]))
        }
        exit length(found) < length(part[parts]) || substr(found, length(found) - length(part[parts]) + 1) != part[parts]
    }'
}

examples=0
failed=0
for document; do
    rm -rf "$work"/example* "$work/place"
    mkdir "$work/place"
    for entry in "$source_dir"/*; do
        ln -s "$entry" "$work/place/"
    done
    rm -f "$work/place/build"
    case $document in
    *.1) page "$source_dir/$document" >"$work/document" ;;
    *) cp "$source_dir/$document" "$work/document" ;;
    esac
    split "$work/document"
    for example in "$work"/example*[0-9]; do
        [ -e "$example" ] || continue
        examples=$((examples + 1))
        (cd "$work/place" && timeout 100 sh "$example" 2>&1 </dev/null) | squeeze >"$work/found"
        squeeze <"$example.wanted" >"$work/wanted"
        if ! matches "$work/found" "$work/wanted"; then
            failed=$((failed + 1))
            echo "FAILED $document: $(head -n 1 "$example")"
            cat "$work/found"
            echo
        fi
    done
done
echo "$examples examples, $failed failed"
[ "$examples" -gt 0 ] && [ "$failed" = 0 ]
