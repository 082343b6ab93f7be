#!/bin/sh
# Draws the pictures of docs/ again from the recorded scenarios and the corpus. No GPU is needed.
#
#   sh scripts/pictures.sh [PROGRAM]
set -eu
program=${1:-build/release/gridsmith}
mkdir -p docs/pictures

# A cell for each SM, a column for each group that blocks are handed out to, the numbers of the blocks of a kernel in it,
# and a color for when they were handed out.
draw_grants() {
    "$program" predict --follow --csv "scenarios/$1.json" | awk -F, -v kernel="$2" '
    BEGIN {
        columns = split("124 128 0 2 4 6 8 10 12 14", first, " ")
        for (c = 1; c <= columns; c++) add(c, first[c])
    }
    function put(c, sm) { column[sm] = c; row[sm] = rows[c]++; if (rows[c] > most) most = rows[c] }
    # The SMs of a group: two a TPC, a TPC every 16 SMs at first, every 14 after the first four.
    function add(c, sm,    r, at) {
        if (c <= 2) { for (r = 0; r < 4; r++) put(c, sm + r); return }
        for (r = 0; r < (sm ? 8 : 4); r++) {
            at = r < 4 ? sm + 16 * r : 62 + sm + 14 * (r - 4)
            put(c, at); put(c, at + 1)
        }
        if (sm == 12) { put(c, 120); put(c, 121) }
        if (sm == 14) { put(c, 122); put(c, 123) }
    }
    $5 == kernel {
        numbers[$7] = numbers[$7] (numbers[$7] == "" ? "" : " ") $6
        if (!($7 in lowest)) lowest[$7] = $6
        if ($6 > last) last = $6
    }
    END {
        w = 84; h = 20; top = 60
        printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n", columns * w + 20, top + most * h + 12
        print "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
        printf "<text x=\"10\" y=\"20\" font-size=\"14\">NVIDIA H200: the numbers of %d blocks, and in the corner the SM. Darker: earlier.</text>\n", last + 1
        for (c = 1; c <= columns; c++)
            printf "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" fill=\"#444\">%s</text>\n", 10 + (c - 0.5) * w, top - 8, c <= 2 ? "front " c : "GPC " (c - 3)
        for (sm = 0; sm < 132; sm++) {
            x = 10 + (column[sm] - 1) * w; y = top + row[sm] * h
            shade = int(140 + 180 * lowest[sm] / (last + 1))
            printf "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"rgb(%d,%d,255)\" stroke=\"#fff\"/>", x, y, w, h, shade, shade + 12
            printf "<text x=\"%d\" y=\"%d\" font-size=\"7\" fill=\"#345\">%d</text>", x + 3, y + 8, sm
            printf "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x + w / 2 + 4, y + 14, numbers[sm]
        }
        print "</svg>"
    }'
}

draw_grants h200-overtaking k1 >docs/pictures/h200-overtaking.svg
"$program" predict --follow --svg -o docs/pictures/h200-urgent.svg scenarios/h200-urgent.json
"$program" gpus --svg -o docs/pictures/gpu-h200.svg h200
"$program" bound --measured corpus/h200-bounds.jsonl.gz --svg -o docs/pictures/h200-bounds.svg
