#!/bin/sh
# Runs many random PTX kernels in all forms on the CPU: tests/forms/test_ptx_forms.c explains what is compared.
#
#   sh scripts/ptx_campaign.sh [KERNELS [SEED [PROGRAM]]]
#
# KERNELS is 100000 by default, SEED 1. PROGRAM is a compiled test_ptx_forms; without it, it is built. Each process of a
# campaign has a seed of its own. Ends at the first kernel that a form computes differently, and prints its seed.
#
# Nearly all the time of the test is spent by the C compiler. tcc, if it is installed, takes a hundredth of it. It does
# not know all of C that src/kernels/cpu/runtime/gridsmith_ptx.h needs: so cc compiles the functions of that file once, and tcc sees their
# prototypes.
set -eu
kernels=${1:-100000}
seed=${2:-1}
program=${3:-}
cd "$(dirname "$0")/.."
if [ -z "$program" ]; then
    cmake --preset release -DGRIDSMITH_TESTS=ON >/dev/null
    cmake --build --preset release --target test_ptx_forms >/dev/null
    program=build/release/tests/test_ptx_forms
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
GRIDSMITH_RUNS=$((kernels * 5000))
export GRIDSMITH_SEED="$seed" GRIDSMITH_RUNS

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
    exec tcc -w -c -I "$folder" -I "$(dirname "$source")" -o "$object" "$source.kernels.c"
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
"$program"
