# Sourced by scripts that run many kernels on the CPU: sets CC to a fast compiler, made in their own folder $folder.
#
# Nearly all the time of such scripts is spent by the C compiler. tcc, if it is installed, takes a hundredth of it. It does
# not know all of C that src/kernels/cpu/runtime/gridsmith_ptx.h needs: so cc compiles the functions of that file once, and
# tcc sees their prototypes. What tcc refuses is compiled by cc.

# Prints the preprocessed file as prototypes.
cat >"$folder/prototypes.awk" <<'PROGRAM'
/^# [0-9]+ "/ { is_mine = ($3 ~ /gridsmith_ptx\.h"/); next }
!is_mine { next }
/^#/ { if ($0 !~ /^#define PTX /) print; next }
{
    for (i = 1; i <= length($0); i++) {
        c = substr($0, i, 1)
        if (is_function && c == "{") {
            if (depth++ == 0 && head !~ /__int128|_Float16/)
                print "extern" head ";"
        } else if (depth && c == "}") {
            is_function = --depth > 0
        } else if (!is_function && substr($0, i, 12) == "PTX_FUNCTION") {
            is_function = 1
            head = ""
            i += 11
        } else if (is_function && !depth) {
            head = head c
        } else if (!is_function) {
            printf "%s", c
        }
    }
    head = head " "
    print ""
}
PROGRAM

# A compiler for $CC that leaves the kernels to tcc.
cat >"$folder/cc" <<'PROGRAM'
#!/bin/sh
source= object= previous= is_link=1
for word; do
    [ "$previous" = -o ] && object=$word
    case $word in *.c) source=$word ;; -c) is_link=0 ;; esac
    previous=$word
done
folder=$(dirname "$0")
case $source in
*/module*.c)
    sed 's/#include "gridsmith_ptx.h"/#include "prototypes.h"/' "$source" >"$source.kernels.c"
    tcc -w -c -I "$folder" -I "$(dirname "$source")" -o "$object" "$source.kernels.c" 2>/dev/null && exit
    ;;
esac
[ $is_link = 1 ] && exec cc "$@" "$folder/functions.o" -lm
exec cc "$@"
PROGRAM

if command -v tcc >/dev/null; then
    {
        printf '#include "gridsmith_run.h"\n#include <stdint.h>\nvoid *memcpy(void *, const void *, size_t);\n'
        printf 'void *memset(void *, int, size_t);\n'
        cc -std=gnu17 -E -dD -DPTX=PTX_FUNCTION -I src/kernels/cpu/runtime -I src/kernels/cuda src/kernels/cpu/runtime/gridsmith_ptx.h | awk -f "$folder/prototypes.awk"
    } >"$folder/prototypes.h"
    printf '#include "gridsmith_ptx.h"\n' >"$folder/functions.c"
    cc -std=gnu17 -O2 -w -ffp-contract=off -fno-strict-aliasing -fwrapv '-DPTX=__attribute__((noinline))' -I src/kernels/cpu/runtime -I src/kernels/cuda \
        -c -o "$folder/functions.o" "$folder/functions.c"
    chmod +x "$folder/cc"
    export CC="$folder/cc"
fi
