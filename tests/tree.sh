#!/bin/sh
# The rules of CONTRIBUTING.md that a script can check: rooms, file tops, man pages, links, the commands of the README.
#
#   sh tests/tree.sh SOURCE_DIR
set -u
cd "$1" || exit 1
failed=0
complain() {
    echo "$1"
    failed=1
}

# The plan of the house, as the tables of CONTRIBUTING.md have it. A row of the first: a wing, and the wings that it may use. A
# row of the second: a room. A room may use the rooms of its own wing that are above it, the rooms of the wings that its wing
# may use, and of another room only its one header, which has its name.
wing_rows=$(sed -n 's/^| `src\/\([a-z]*\)` | \([a-z, ]*\) | .*/\1:\2/p' CONTRIBUTING.md)
rooms=$(sed -n 's/^| `src\/\([a-z]*\/[a-z]*\)` | .*/\1/p' CONTRIBUTING.md)
rooms="base $rooms cmd"
allowed_wings() {
    echo "$wing_rows" | sed -n "s/^$1://p" | tr -d ,
}
above=
for room in $rooms; do
    wing=${room%%/*}
    name=${room##*/}
    [ -d "src/$room" ] || { complain "CONTRIBUTING.md lists src/$room, which is not there"; continue; }
    [ -e "src/$room/$name.h" ] || complain "src/$room has no header $name.h"
    for header in $(grep -ho '#include "[a-z]*/[a-z_/]*\.h"' src/"$room"/*.[ch] | cut -d'"' -f2 | sort -u); do
        other=${header%/*}
        other_wing=${other%%/*}
        [ "$other" = kernels/cpu/runtime ] && other=kernels/cpu && header=kernels/cpu/cpu.h
        case " $(allowed_wings "$wing") " in
        *" $other_wing "*) ;;
        *) [ "$other_wing" = "$wing" ] || complain "src/$room includes $header, but $wing may not use $other_wing" ;;
        esac
        case " $above $room " in
        *" $other "*) ;;
        *) complain "src/$room includes $header, which is not above it" ;;
        esac
        [ "$header" = "$other/${other##*/}.h" ] || [ "$other" = "$room" ] ||
            complain "src/$room includes $header, which is the inside of another room"
    done
    above="$above $room"
done
for folder in src/base src/cmd src/*/*/; do
    room=${folder#src/}
    case " $above " in
    *" ${room%/} "*) ;;
    *) complain "src/$room is not in CONTRIBUTING.md's table of rooms" ;;
    esac
done
# Each wing says what it is for, and names its rooms.
for wing in $(echo "$wing_rows" | cut -d: -f1); do
    [ -e "src/$wing/README.md" ] || { complain "src/$wing has no README.md"; continue; }
    for room in $rooms; do
        [ "${room%%/*}" = "$wing" ] && [ "$room" != "$wing" ] && ! grep -q "\`${room##*/}\`" "src/$wing/README.md" &&
            complain "src/$wing/README.md does not name ${room##*/}"
    done
done
# The files that it names are there.
for wing in $(echo "$wing_rows" | cut -d: -f1); do
    for file in $(grep -o '`[a-z_/]*\.[ch]`' "src/$wing/README.md" | tr -d '`' | sort -u); do
        [ -e "$file" ] || find "src/$wing" -path "*/$file" | grep -q . || complain "src/$wing/README.md names $file, which is not there"
    done
done
# Tests lie in the folder of a room, or of what they are about.
for folder in tests/*/; do
    name=$(basename "$folder")
    case " $(echo "$rooms" | tr ' ' '\n' | sed 's|.*/||' | tr '\n' ' ') support library project bench browser cases fake fuzz hangs hostile kernels recorder spin traps " in
    *" $name "*) ;;
    *) complain "tests/$name is the folder of no room" ;;
    esac
done

# Each file name exists once, except in src/cmd, which has a file for each subcommand.
for name in $(find src -name '*.[ch]' ! -path 'src/cmd/*' -exec basename {} \; | sort | uniq -d); do
    complain "there are several files called $name: $(find src -name "$name" ! -path 'src/cmd/*' | tr '\n' ' ')"
done

# Each gs_ type, each type of a header, and each header guard exists once.
for name in $(grep -hoE '^(typedef )?(struct|enum|union) gs_[a-z_0-9]+ \{' -r src include --include='*.[ch]' |
    sed 's/^typedef //' | sort | uniq -d | awk '{print $2}'); do
    complain "the type $name is defined more than once"
done
for name in $(grep -hoE '^(typedef )?(struct|enum|union) [a-z_0-9]+ \{' -r src include --include='*.h' |
    sed 's/^typedef //' | sort | uniq -d | awk '{print $2}'); do
    complain "the type $name is defined in more than one header"
done
for guard in $(grep -hoE '^#ifndef [A-Z_0-9]+_H$' -r src include --include='*.h' | sort | uniq -d | awk '{print $2}'); do
    complain "the header guard $guard is used more than once"
done

# No cycle between files: a file uses another if it names a function that the other defines. tsort finds cycles.
edges=$(mktemp)
for file in src/base/*.c src/cmd/*.c src/*/*/*.c; do
    # Definitions: a line that begins with a type, followed by the name of a gs_ function.
    grep -oE '^[A-Za-z_][^;=(]*[ *]gs_[a-z0-9_]+\(' "$file" | grep -v '^static' |
        sed -E "s|.*[ *](gs_[a-z0-9_]+)\(\$|D \1 $file|"
    # Uses, without comments and declarations.
    sed -e 's|/\*.*\*/||g' -e '/^ \*/d' -e '/^\/\*/d' "$file" | grep -oE '\bgs_[a-z0-9_]+\b' | sort -u |
        sed "s|^|U |; s|\$| $file|"
done | awk '
    $1 == "D" { file_of[$2] = $3 }
    $1 == "U" { name[++uses] = $2; user[uses] = $3 }
    END { for (i = 1; i <= uses; i++) if (file_of[name[i]] && file_of[name[i]] != user[i]) print user[i], file_of[name[i]] }
' | sort -u >"$edges"
[ "$(wc -l <"$edges")" -gt 200 ] || complain "the search for cycles finds next to nothing: it must be broken"
tsort "$edges" >/dev/null 2>"$edges.loops" || complain "files use each other in a circle: $(grep -c loop: "$edges.loops") of them"
sed -n 's/^tsort: \(.*\)/  \1/p' "$edges.loops"
rm -f "$edges" "$edges.loops"

# Each file begins with a comment that names it.
for file in $(find src tests bench examples -name '*.[ch]' ! -path 'tests/cases/*' ! -path 'tests/kernels/*' ! -path 'tests/traps/*'); do
    head -n 3 "$file" | grep -q "$(basename "$file"):" || complain "$file does not begin by saying what it is"
done

# Man pages have no errors; links in the documents have targets.
if command -v mandoc >/dev/null; then
    for page in man/*.1; do
        mandoc -T lint -W warning "$page" || complain "$page has mistakes"
    done
fi
# The headings of a document as the ends of links.
headings() {
    sed -n 's/^#\{1,6\} //p' "$1" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-'
}
for document in README.md CONTRIBUTING.md CHANGELOG.md corpus/README.md $(find docs src -name '*.md'); do
    folder=$(dirname "$document")
    for link in $(grep -o ']([^):]*)' "$document" | sed 's/](\(.*\))/\1/'); do
        target=$folder/${link%%#*}
        [ "${link#\#}" = "$link" ] || target=$document
        [ -e "$target" ] || complain "$document links to $link, which is not there"
        case $link in
        *.md#* | "#"*) headings "$target" | grep -qx -- "${link#*#}" || complain "$document links to $link: no such heading" ;;
        esac
    done
done

# The front page is short, and its table of latencies is that of the report, without ranges.
[ "$(wc -l <README.md)" -le 150 ] || complain "README.md has more than 150 lines"
sed -n '/^## /q; s/ ([0-9.–]*)//g; s/\*\*//g; /^| .*[0-9]x, /p' docs/reports/neighbors.md | while read -r row; do
    grep -qxF -- "$row" README.md || echo "README.md has another row than docs/reports/neighbors.md: $row"
done | grep . && failed=1

# Scripts that others run are plain sh.
for script in scripts/*.sh tests/*.sh tests/*/*.sh .ci/run; do
    sh -n "$script" || complain "$script is not valid sh"
done

[ "$failed" = 0 ] && echo "the tree is in order"
exit "$failed"
