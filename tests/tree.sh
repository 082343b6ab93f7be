#!/bin/sh
# The house rules that a machine can look after: rooms, file tops, man pages, links, the README's commands.
#
#   sh tests/tree.sh SOURCE_DIR
set -u
cd "$1" || exit 1
failed=0
complain() {
    echo "$1"
    failed=1
}

# A room may include only rooms above it in this list, and of another room only its one header.
rooms="base gpu run sched device fuzz bound reshape zoo plan share view cmd"
above=
for room in $rooms; do
    [ -d "src/$room" ] || { above="$above $room"; continue; }
    for line in $(grep -ho '#include "[a-z]*/[a-z_]*\.h"' src/"$room"/*.[ch] | tr -d ' ' | sort -u); do
        header=$(echo "$line" | cut -d'"' -f2)
        other=${header%%/*}
        case " $above $room " in
        *" $other "*) ;;
        *) complain "src/$room includes $header, which is a room below it" ;;
        esac
        # Two rooms know CUDA, through one loader.
        [ "$room $header" = "share device/cuda_api.h" ] && continue
        [ "$header" = "$other/$other.h" ] || complain "src/$room includes $header, which is the inside of another room"
    done
    above="$above $room"
done

# Each file begins with a comment that names it.
for file in src/*/*.[ch] tests/*.[ch] tests/fuzz/*.c tests/fake/*.[ch] bench/*.c examples/*.c; do
    head -n 3 "$file" | grep -q "$(basename "$file"):" || complain "$file does not begin by saying what it is"
done

# Man pages are clean; links in the documents lead somewhere.
if command -v mandoc >/dev/null; then
    for page in man/*.1; do
        mandoc -T lint -W warning "$page" || complain "$page has mistakes"
    done
fi
for document in README.md CONTRIBUTING.md CHANGELOG.md docs/*.md corpus/README.md; do
    folder=$(dirname "$document")
    for link in $(grep -o '](\([^)#:]*\))' "$document" | sed 's/](\(.*\))/\1/'); do
        [ -e "$folder/$link" ] || complain "$document links to $link, which is not there"
    done
done

# Scripts that others run are plain sh.
for script in scripts/*.sh tests/*.sh tests/fake/*.sh .ci/run; do
    sh -n "$script" || complain "$script is not valid sh"
done

[ "$failed" = 0 ] && echo "the tree is in order"
exit "$failed"
