#!/bin/sh
# A pack from a machine to the source tree: killed and continued, adopted, and one clear line for each file that is no pack.
#
#   sh tests/calibrate/packs.sh PROGRAM SOURCE_DIR
. "$(dirname "$0")/../support/checks.sh"
program=$1
source_dir=$2
cd "$work" || exit 1

# wants EXIT_CODE WORDS COMMAND...: the output must contain the words.
wants() {
    wanted=$1 words=$2
    shift 2
    check "$*" "$wanted" "$@"
    says "$words"
}

# Nothing of the tree may change, and a refusal is one line.
refuses() {
    words=$1
    shift
    wants 2 "$words" "$@"
    is_one_line
    diff -r tree before >/dev/null || fail "$*: the tree was changed"
}

device="model:$source_dir/gpus/orin.json,extra_step=no,tie_order=ascending" # few SMs: less work
pack="probe --device $device --runs 40 --held-out 26"

# ---- what it will do is said first ----
wants 0 "What will be done:" "$program" $pack --pack dry.gspack --dry-run
grep -qF "nothing is sent" err || fail "a dry run does not say that nothing is sent"
[ ! -e dry.gspack ] && [ ! -e dry.gspack.part ] || fail "a dry run wrote a file"
wants 2 "--dry-run needs --pack" "$program" probe --device "$device" --dry-run

# ---- killed and continued: the same pack ----
wants 0 "It contains no UUID" "$program" $pack --pack whole.gspack
# killed FILE LINES...: begins a pack and kills it after LINES lines, and continues it for each further number. On a
# busy machine it may be complete before it is killed: then once more, from the beginning.
killed() {
    file=$1
    shift
    tries=10
    until [ -e "$file.part" ] || [ $((tries -= 1)) = 0 ]; do
        rm -f "$file"
        for lines; do
            "$program" $pack --pack "$file" >/dev/null 2>&1 &
            running=$!
            while kill -0 $running 2>/dev/null && [ "$(cat "$file.part" 2>/dev/null | wc -l)" -lt "$lines" ]; do
                sleep 0.01
            done
            kill -KILL $running 2>/dev/null
            wait $running 2>/dev/null
        done
    done
    [ -e "$file.part" ] || fail "$file was complete before it was killed"
}
if [ "${GRIDSMITH_RUNS:-100000}" -lt 4000 ]; then # a sanitizer sees packs continued in test_pack.c
    cp whole.gspack cut.gspack
else
    killed cut.gspack 3 25
    wants 0 "26 of them held out" "$program" $pack --pack cut.gspack
    cmp whole.gspack cut.gspack || fail "a pack that was killed and continued differs"
fi
wants 2 "exists already" "$program" $pack --pack cut.gspack
[ "$(wc -l <err)" = 1 ] || fail "a pack that exists: more than one line of errors"
wants 2 "takes the name of a file" "$program" $pack --pack -
wants 2 "leave out --output" "$program" $pack --pack other.gspack -o other.json
killed begun.gspack 1
wants 2 "made on another GPU, or with other settings" "$program" $pack --seed 2 --pack begun.gspack
gunzip -c whole.gspack | grep -qE "GPU-|$(hostname)|$(id -un)[^a-z]" && fail "the pack names the GPU, the machine or the user"

# ---- adopted ----
mkdir -p tree/gpus tree/corpus tree/docs
cp "$source_dir/docs/gpus.md" tree/docs/
cp "$source_dir/corpus/README.md" tree/corpus/
cp -r tree before
wants 0 "held out, not used for fitting" "$program" adopt --dry-run whole.gspack
diff -r tree before >/dev/null || fail "a dry run changed the tree"
refuses "./docs/gpus.md does not exist" "$program" adopt whole.gspack
refuses "--name takes letters, digits" "$program" adopt --name ../x --into tree whole.gspack
wants 0 "new:     tree/gpus/mine.json" "$program" adopt --name mine --into tree whole.gspack
grep -q '^| mine | Orin | 8.7 | 16 | 20..-..-.. | .* | 26 of 26 | shared_kept |$' tree/docs/gpus.md ||
    fail "no row in docs/gpus.md: $(grep mine tree/docs/gpus.md)"
grep -q '^| `mine.jsonl.gz` | ' tree/corpus/README.md || fail "there is no row in corpus/README.md"
[ "$(ls tree/gpus tree/corpus | tr '\n' ' ')" = "tree/corpus: README.md mine.jsonl.gz  tree/gpus: mine.json " ] ||
    fail "the tree has other files: $(ls tree/gpus tree/corpus)"
wants 0 "all" "$program" fuzz --device "$device" --gpu ./tree/gpus/mine.json --count 100 --seed 77
wants 0 "100.0%" "$program" replay --gpu ./tree/gpus/mine.json tree/corpus/mine.jsonl.gz
# The test that comes with it fails if the description no longer predicts what the pack has.
wants 0 "mine: 69 of 69 runs" sh "$source_dir/tests/calibrate/adopted.sh" "$program" tree
sed 's/"extra_step":"no"/"extra_step":"yes"/' tree/gpus/mine.json >changed.json
cmp -s changed.json tree/gpus/mine.json && fail "the description has no extra_step"
cp tree/gpus/mine.json kept.json
cp changed.json tree/gpus/mine.json
wants 1 "FAILED mine" sh "$source_dir/tests/calibrate/adopted.sh" "$program" tree
cp kept.json tree/gpus/mine.json
rm -rf before
cp -r tree before
refuses "tree/gpus/mine.json exists already: give another --name" "$program" adopt --name mine --into tree whole.gspack

# ---- files that are no packs ----
head -c 5000 whole.gspack >torn.gspack
refuses "cut short" "$program" adopt --into tree torn.gspack
gunzip -c whole.gspack | head -n 30 >begin.gspack
refuses "not a complete pack: its end is missing" "$program" adopt --into tree begin.gspack
gunzip -c whole.gspack | sed '1s,gridsmith.pack/1,gridsmith.pack/2,' >newer.gspack
refuses "made by a newer program" "$program" adopt --into tree newer.gspack
gunzip -c whole.gspack | sed '20s/"threads":[0-9]*/"threads":64/' >altered.gspack
refuses "is damaged" "$program" adopt --into tree altered.gspack
refuses "not a pack, but gridsmith.run/1" "$program" adopt --into tree "$source_dir/corpus/h200-holes.jsonl.gz"
printf '\177ELF\n' >program.gspack
refuses "invalid token" "$program" adopt --into tree program.gspack
refuses "cannot read" "$program" adopt --into tree absent.gspack
refuses "give one pack" "$program" adopt --into tree

finish "packs are made, continued, adopted and refused"
