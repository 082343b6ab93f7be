/*
 * test_guards.c: the guard in front of kernels.
 *
 * Where ptxas is installed, the guards of src/kernels/sass/sass_guards.c are those that it makes today, and a kernel
 * that gets a parameter by the guard has the records that ptxas writes for one that has it in its source. With
 * GRIDSMITH_GUARDS the test writes that file (scripts/guards.sh).
 *
 * The decision is checked in all orders in which warps of small grids can take its steps, in chains of launches, with
 * stops at any time.
 */
#include "test.h"

#include "guard_maker.h"

#include <stdlib.h>

static const int architectures[] = {80, 86, 89, 90, 100, 103, 120};

static bool has_ptxas(void) {
    char path[1000];
    return gs_assembler_find(path, sizeof path);
}

/* ---- the guards ---- */

static void put_guard(gs_text *into, const struct made_guard *made) {
    gs_text_add(into, "static const uint64_t guard_%d[] = {\n", made->guard.architecture);
    for (uint32_t i = 0; i < 2 * made->guard.count; i++)
        gs_text_add(into, "%s0x%016llx,%s", i % 4 ? " " : "    ", (unsigned long long)made->code[i],
                    i % 4 == 3 ? "\n" : "");
    gs_text_add(into, "};\n\n");
}

TEST(guards_are_those_of_ptxas) {
    const char *path = getenv("GRIDSMITH_GUARDS");
    static uint64_t last[2 * MOST_GUARD];
    uint32_t count_last = 0;
    int named = 0; /* the architecture whose code this one has, too */
    gs_text text = {0}, rows = {0};
    if (!has_ptxas())
        skip();
    gs_text_add(
        &text, "/*\n * sass_guards.c: the guard for each architecture, made of guard.ptx by ptxas (scripts/guards.sh). "
               "See sass.h.\n */\n#include \"sass.h\"\n\n/* clang-format off */\n");
    for (size_t i = 0; i < GS_COUNT(architectures); i++) {
        static struct made_guard made;
        make_guard(architectures[i], &made);
        const gs_guard *kept = gs_guard_find(architectures[i]);
        if (!path) {
            assert_non_null(kept);
            assert_int_equal(kept->count, made.guard.count);
            assert_memory_equal(kept->code, made.code, 16 * made.guard.count);
            assert_int_equal(kept->registers, made.guard.registers);
            assert_int_equal(kept->parameter_base, made.guard.parameter_base);
            assert_int_equal(kept->site_count, made.guard.site_count);
            assert_memory_equal(kept->sites, made.guard.sites, sizeof kept->sites);
            assert_int_equal(kept->note_count, made.guard.note_count);
            for (uint32_t k = 0; k < made.guard.note_count; k++)
                assert_true(kept->notes[k].format == made.guard.notes[k].format &&
                            kept->notes[k].code == made.guard.notes[k].code &&
                            kept->notes[k].word == made.guard.notes[k].word);
        }
        bool is_as_before = count_last == made.guard.count && !memcmp(last, made.code, 16 * made.guard.count);
        named = is_as_before ? named : architectures[i];
        if (!is_as_before)
            put_guard(&text, &made);
        count_last = made.guard.count;
        memcpy(last, made.code, sizeof last);
        gs_text_add(&rows, "    {%d, %u, 0x%x, %u, {", architectures[i], made.guard.registers,
                    made.guard.parameter_base, made.guard.site_count);
        for (uint32_t k = 0; k < made.guard.site_count; k++)
            gs_text_add(&rows, "%s{%u, %u}", k ? ", " : "", made.guard.sites[k].instruction, made.guard.sites[k].shift);
        gs_text_add(&rows, "}, %u,\n     {", made.guard.note_count);
        for (uint32_t k = 0; k < made.guard.note_count; k++)
            gs_text_add(&rows, "%s{%u, 0x%02x, 0x%x}",
                        !k      ? ""
                        : k % 4 ? ", "
                                : ",\n      ",
                        made.guard.notes[k].format, made.guard.notes[k].code, made.guard.notes[k].word);
        gs_text_add(&rows, "},\n     %u, guard_%d},\n", made.guard.count, named);
    }
    gs_text_add(&text, "const gs_guard gs_guards[] = {\n%s};\n\nconst size_t gs_guard_count = GS_COUNT(gs_guards);\n",
                rows.data);
    if (path) {
        FILE *file = fopen(path, "w");
        assert_true(file && fwrite(text.data, 1, text.count, file) == text.count && fclose(file) == 0);
    }
    gs_text_free(&text);
    gs_text_free(&rows);
}

/* ---- the decision, in all orders ---- */

enum { MODEL_TABLE = 1 << 20, MOST_WARPS = 6, MOST_LAUNCHES = 3 };

/* What a warp has done. */
enum { NOT_BEGUN, HAS_READ, HAS_CLAIMED, SAW_STOP, RUNS, LEAVES };

struct state {
    gs_guard_control controls[MOST_LAUNCHES + 1];
    uint8_t launch; /* the one that is under way, from 1 on; above the number of launches: none */
    uint8_t warps[MOST_WARPS];
    uint8_t runs[MOST_WARPS]; /* of each block */
};

struct model {
    uint32_t blocks, warps, launches, first, mask; /* `warps` of each block */
    struct {
        struct state *data;
        size_t count, capacity;
    } states;
    uint32_t *table; /* of states, by their hash: the number of one, and 1 */
    size_t ends;
};

static void reach(struct model *model, const struct state *state) {
    uint32_t *place = &model->table[gs_hash(0, state, sizeof *state) % MODEL_TABLE];
    for (; *place; place = place + 1 < model->table + MODEL_TABLE ? place + 1 : model->table)
        if (memcmp(&model->states.data[*place - 1], state, sizeof *state) == 0)
            return;
    assert_true(GS_PUSH(&model->states, *state) && model->states.count < MODEL_TABLE / 2);
    *place = (uint32_t)model->states.count;
}

/* The next step of a warp, as in guard.ptx: a read of the controls, perhaps a claim, perhaps a look at the stop word,
   which has any value, and if it is set the closing. */
static void step_warp(const struct model *model, struct state *state, uint32_t warp, bool is_stop) {
    gs_guard_control *before = &state->controls[state->launch - 1], *own = before + 1;
    uint32_t b = warp / model->warps, base = before->base + (before->word & ~GS_GUARD_CLOSED), r = b - base;
    uint32_t claimed = own->word & ~GS_GUARD_CLOSED, claim = (r | model->mask) + model->mask + 2;
    bool is_closed = own->word & GS_GUARD_CLOSED;
    uint8_t *now = &state->warps[warp];
    switch (*now) {
    case NOT_BEGUN:
        if (b == 0)
            own->base = base;
        *now = b < base                                       ? LEAVES
               : !is_closed && claimed > r && r & model->mask ? RUNS
               : !is_closed                                   ? HAS_READ
               : claimed > r                                  ? RUNS
                                                              : LEAVES;
        return;
    case HAS_READ:
        *now = is_closed ? claimed > r ? RUNS : LEAVES : claimed < claim ? HAS_CLAIMED : RUNS;
        own->word = (uint32_t)gs_max_u64(own->word, claim);
        return;
    case HAS_CLAIMED:
        *now = is_stop ? SAW_STOP : RUNS;
        return;
    default:
        own->word |= GS_GUARD_CLOSED;
        *now = RUNS;
    }
}

/* The launch has ended: warps of a block have decided alike, and no block is left out below one that ran. */
static void end_launch(const struct model *model, struct state *state) {
    const gs_guard_control *own = &state->controls[state->launch];
    bool is_left = false;
    for (uint32_t i = 0; i < model->blocks * model->warps; i++) {
        uint32_t b = i / model->warps;
        assert_int_equal(state->warps[i], state->warps[b * model->warps]);
        if (i % model->warps == 0)
            state->runs[b] = (uint8_t)(state->runs[b] + (state->warps[i] == RUNS));
        is_left |= !state->runs[b];
        assert_true(state->runs[b] <= 1 && !(is_left && state->runs[b]));
    }
    assert_true(!is_left || own->word & GS_GUARD_CLOSED);
    memset(state->warps, NOT_BEGUN, sizeof state->warps);
    state->launch++;
}

static size_t explore(struct model *model) {
    struct state start;
    memset(&start, 0, sizeof start);
    start.launch = 1;
    for (uint32_t i = 1; i <= model->launches; i++)
        start.controls[i] = (gs_guard_control){.word = model->first, .base = model->first};
    reach(model, &start);
    for (size_t i = 0; i < model->states.count; i++) {
        bool is_end = true, may_stop = model->states.data[i].launch < model->launches;
        if (model->states.data[i].launch > model->launches) {
            for (uint32_t b = 0; b < model->blocks; b++)
                assert_int_equal(model->states.data[i].runs[b], 1);
            model->ends++;
            continue;
        }
        for (uint32_t warp = 0; warp < model->blocks * model->warps; warp++)
            for (int is_stop = 0; is_stop <= (model->states.data[i].warps[warp] == HAS_CLAIMED && may_stop);
                 is_stop++) {
                struct state next = model->states.data[i];
                if (next.warps[warp] >= RUNS)
                    continue;
                is_end = false;
                step_warp(model, &next, warp, is_stop);
                reach(model, &next);
            }
        if (is_end) {
            struct state next = model->states.data[i];
            end_launch(model, &next);
            reach(model, &next);
        }
    }
    free(model->states.data);
    return model->ends;
}

TEST(each_block_runs_once_in_a_chain) {
    static const uint32_t shapes[][3] = {
        {2, 3, 2}, {3, 2, 2}, {6, 1, 3}, {2, 2, 3}, {3, 2, 3}}; /* the last launch cannot be stopped */
    size_t ends = 0;
    struct model model = {.table = calloc(MODEL_TABLE, sizeof *model.table)};
    for (size_t i = 0; i < GS_COUNT(shapes); i++)
        for (uint32_t first = 1; first <= 3; first++)
            for (uint32_t mask = 0; mask <= 1; mask++) {
                uint32_t *table = model.table;
                memset(table, 0, MODEL_TABLE * sizeof *table);
                model = (struct model){.blocks = shapes[i][0],
                                       .warps = shapes[i][1],
                                       .launches = shapes[i][2],
                                       .first = first,
                                       .mask = mask,
                                       .table = table};
                ends += explore(&model);
            }
    free(model.table);
    assert_true(ends > 100);
}

/* ---- records ---- */

/* A kernel with some bytes of parameters, and with the guard's at the end or without. */
static gs_text kernel_text(int architecture, uint32_t bytes, bool has_more) {
    gs_text text = {0};
    gs_text_add(&text, ".version 8.8\n.target sm_%d\n.address_size 64\n.visible .entry k(", architecture);
    if (bytes)
        gs_text_add(&text, ".param .align 4 .b8 before[%u], .param .u64 out", bytes);
    gs_text_add(&text, "%s)\n{\n.reg .b32 %%r<4>; .reg .b64 %%d<2>; .reg .pred %%p;\nmov.u32 %%r1, %%tid.x;\n",
                has_more ? bytes ? ", .param .align 8 .b8 guarded[24]" : ".param .align 8 .b8 guarded[24]" : "");
    gs_text_add(&text, "setp.gt.u32 %%p, %%r1, 3;\n@%%p bra over;\nbar.sync 0;\nover:\n");
    if (bytes)
        gs_text_add(&text, "ld.param.u64 %%d1, [out];\nst.global.u32 [%%d1], %%r1;\n");
    gs_text_add(&text, "ret;\n}\n");
    return text;
}

static gs_sass_image read_kernel(int architecture, uint32_t bytes, bool has_more) {
    gs_text text = kernel_text(architecture, bytes, has_more);
    gs_cubin cubin = assemble(&text, architecture, "k");
    gs_sass_image image;
    gs_error error;
    assert_int_equal(gs_sass_read(&image, cubin.image, cubin.bytes, &error), GS_OK);
    gs_cubin_free(&cubin);
    gs_text_free(&text);
    return image;
}

static int compare_records(const void *one, const void *other) {
    const gs_sass_record *a = one, *b = other;
    return a->code != b->code ? (int)a->code - (int)b->code : (a->at > b->at) - (a->at < b->at);
}

/* Before sm_90 many parameters are elsewhere than few: then there is no room for one more. */
static bool has_room(int architecture, uint32_t bytes) {
    return architecture >= 90 || (bytes + 7) / 8 * 8 + 8 + 24 <= 4352;
}

static void check_refusal(int architecture, uint32_t bytes) {
    gs_sass_image image = read_kernel(architecture, bytes, false);
    gs_guarded_list list = {0};
    gs_error error;
    assert_int_equal(gs_sass_guard(&image, &list, &error), GS_OK);
    assert_non_null(list.data[0].refused);
    gs_sass_free(&image);
    free(list.data);
}

/* Takes the words of a record of a kind out of a list. Returns how many there were. */
static uint32_t take_words(gs_sass_records *records, uint8_t code, uint32_t *words) {
    for (size_t i = 0; i < records->count; i++) {
        gs_sass_record record = records->data[i];
        if (record.code != code)
            continue;
        assert_true(record.count <= 64);
        for (uint32_t at = 0; at < record.count; at += 4)
            words[at / 4] = gs_sass_word(&records->bytes, record.at + at);
        records->count--;
        memmove(&records->data[i], &records->data[i + 1], (records->count - i) * sizeof record);
        return record.count / 4;
    }
    return 0;
}

/* The records name the places of the guard, and then those of the kernel; both are taken out of the lists. */
static void take_notes(const gs_guard *guard, gs_sass_records *mine, gs_sass_records *theirs) {
    static const uint8_t codes[] = {GS_SASS_EXITS, GS_SASS_SHUFFLES, GS_SASS_SHUFFLE_MASKS, GS_SASS_WARP_WIDE};
    uint32_t words[32], own[32];
    assert_int_equal(gs_sass_records_find(mine, GS_SASS_BLOCK_Z) != NULL, guard->architecture < 90);
    assert_non_null(gs_sass_records_find(mine, GS_SASS_STACK));
    for (size_t i = 0; i < GS_COUNT(codes); i++) {
        uint32_t count = take_words(mine, codes[i], words), after = take_words(theirs, codes[i], own), front = 0;
        for (uint32_t k = 0; k < guard->note_count; k++)
            if (guard->notes[k].code == codes[i])
                assert_int_equal(words[front++], guard->notes[k].word);
        assert_true(front && count == front + after);
        assert_memory_equal(words + front, own, after * sizeof *own);
    }
    take_words(mine, GS_SASS_BLOCK_Z, words);
    take_words(theirs, GS_SASS_BLOCK_Z, words);
    take_words(mine, GS_SASS_STACK, words);
    take_words(theirs, GS_SASS_STACK, words);
}

/* Both kernels have the same code, so their records differ only in what the parameter and the guard add, and in moved
   places. */
static void check_parameter(int architecture, uint32_t bytes) {
    gs_sass_image guarded = read_kernel(architecture, bytes, false), compiled = read_kernel(architecture, bytes, true);
    const gs_guard *guard = gs_guard_find(architecture);
    gs_sass_records mine, theirs;
    gs_guarded_list list = {0};
    gs_text written = {0}, expected = {0};
    gs_error error;
    assert_int_equal(gs_sass_guard(&guarded, &list, &error), GS_OK);
    assert_int_equal(list.count, 1);
    assert_null(list.data[0].refused);
    assert_int_equal(list.data[0].parameter, bytes ? 2 : 0);
    gs_sass_section *info = gs_sass_find(&guarded, ".nv.info.", "k");
    assert_int_equal(gs_sass_records_read(&mine, &info->bytes, &error), GS_OK);
    assert_int_equal(gs_sass_records_read(&theirs, &gs_sass_find(&compiled, ".nv.info.", "k")->bytes, &error), GS_OK);
    assert_true(gs_sass_records_move(&theirs, guard->count * 16));
    take_notes(guard, &mine, &theirs);
    if (!bytes) { /* where ptxas puts the records of a kernel's first parameter depends on the architecture */
        qsort(mine.data, mine.count, sizeof *mine.data, compare_records);
        qsort(theirs.data, theirs.count, sizeof *theirs.data, compare_records);
    }
    assert_true(gs_sass_records_write(&mine, &written) && gs_sass_records_write(&theirs, &expected));
    assert_int_equal(written.count, expected.count);
    assert_memory_equal(written.data, expected.data, expected.count);
    assert_int_equal(gs_sass_find(&guarded, ".nv.constant0.", "k")->bytes.count,
                     gs_sass_find(&compiled, ".nv.constant0.", "k")->bytes.count);
    gs_sass_records_free(&mine);
    gs_sass_records_free(&theirs);
    gs_text_free(&written);
    gs_text_free(&expected);
    gs_sass_free(&guarded);
    gs_sass_free(&compiled);
    free(list.data);
}

TEST(a_parameter_has_the_records_of_ptxas) {
    static const uint32_t bytes[] = {0, 4, 12, 4000, 4320, 4332, 4336, 4340, 4344, 30000};
    if (!has_ptxas())
        skip();
    for (size_t i = 0; i < GS_COUNT(architectures); i++)
        for (size_t k = 0; k < GS_COUNT(bytes); k++)
            if (has_room(architectures[i], bytes[k]))
                check_parameter(architectures[i], bytes[k]);
            else
                check_refusal(architectures[i], bytes[k]);
}

/* ---- code for other GPUs ---- */

static size_t count_other_code(const gs_sass_image *image) {
    size_t count = 0;
    for (size_t i = 0; i < image->sections.count; i++)
        count += strncmp(image->sections.data[i].name, ".nv.merc.", 9) == 0 ||
                 strncmp(image->sections.data[i].name, ".nv.capmerc.", 12) == 0;
    return count;
}

/* It has neither guard nor parameter. */
TEST(code_for_other_gpus_is_left_out) {
    if (!has_ptxas())
        skip();
    for (size_t i = 0; i < GS_COUNT(architectures); i++) {
        gs_sass_image image = read_kernel(architectures[i], 12, false), again;
        gs_guarded_list list = {0};
        gs_text written = {0};
        gs_error error;
        const char *const kept[] = {".text.", ".nv.info.", ".nv.constant0."};
        size_t sections = image.sections.count;
        assert_int_equal(count_other_code(&image) > 0, architectures[i] >= 100);
        assert_int_equal(gs_sass_guard(&image, &list, &error), GS_OK);
        assert_null(list.data[0].refused);
        assert_int_equal(gs_sass_write(&image, &written, &error), GS_OK);
        assert_int_equal(gs_sass_read(&again, written.data, written.count, &error), GS_OK);
        assert_int_equal(count_other_code(&again), 0);
        assert_int_equal(again.sections.count, sections);
        for (size_t k = 0; k < GS_COUNT(kept); k++) {
            const gs_sass_section *section = gs_sass_find(&again, kept[k], "k");
            assert_true(section &&
                        section - again.sections.data == gs_sass_find(&image, kept[k], "k") - image.sections.data);
        }
        gs_sass_free(&image);
        gs_sass_free(&again);
        gs_text_free(&written);
        free(list.data);
    }
}

TEST(clusters_that_a_kernel_declares_are_known) {
    if (!has_ptxas())
        skip();
    for (size_t i = 0; i < GS_COUNT(architectures); i++)
        for (int has_clusters = 0; has_clusters <= (architectures[i] >= 90); has_clusters++) {
            gs_text text = {0};
            gs_sass_image image;
            gs_guarded_list list = {0};
            gs_error error;
            gs_text_add(&text, ".version 8.8\n.target sm_%d\n.address_size 64\n.visible .entry k()%s\n{\nret;\n}\n",
                        architectures[i], has_clusters ? " .reqnctapercluster 2, 3, 1" : "");
            gs_cubin cubin = assemble(&text, architectures[i], "k");
            assert_int_equal(gs_sass_read(&image, cubin.image, cubin.bytes, &error), GS_OK);
            assert_int_equal(gs_sass_guard(&image, &list, &error), GS_OK);
            assert_null(list.data[0].refused);
            assert_int_equal(list.data[0].cluster, has_clusters ? 6 : 0);
            gs_sass_free(&image);
            gs_cubin_free(&cubin);
            gs_text_free(&text);
            free(list.data);
        }
}

/* ---- blocks that are taken ---- */

#define TAKE(more, place, barrier)                                                                                     \
    "clusterlaunchcontrol.try_cancel.async" more ".mbarrier::complete_tx::bytes.b128 [" place "], [" barrier "];\n"

/* A kernel `k`, or a function that kernels may call, and a kernel that does nothing. */
static void check_taker(int architecture, const char *function, const char *body, bool is_kernel, const char *own,
                        const char *of_plain) {
    gs_text text = {0};
    gs_sass_image image;
    gs_guarded_list list = {0};
    gs_error error;
    gs_text_add(&text, ".version 8.8\n.target sm_%d\n.address_size 64\n%s", architecture, function);
    gs_text_add(
        &text,
        ".visible .entry k(.param .u64 out)\n{\n.reg .b32 %%r<9>; .reg .b64 %%d<9>; .reg .pred %%p;\n"
        ".shared .align 16 .b8 answer[64]; .shared .align 8 .b64 barrier;\nld.param.u64 %%d1, [out];\n"
        "mov.u32 %%r1, %%tid.x;\nmov.u32 %%r2, answer; mov.u32 %%r3, barrier; mad.lo.u32 %%r4, %%r1, 16, %%r2;\n"
        "cvta.shared.u64 %%d2, %%d1; setp.gt.u32 %%p, %%r1, 3;\n%sst.global.u32 [%%d1], %%r1;\nret;\n}\n"
        ".visible .entry plain()\n{\nret;\n}\n",
        body);
    gs_cubin cubin = assemble(&text, architecture, "k");
    assert_int_equal(gs_sass_read(&image, cubin.image, cubin.bytes, &error), GS_OK);
    for (size_t i = 0; i < image.symbols.count && !is_kernel; i++)
        if (strcmp(gs_sass_symbol_name(&image, &image.symbols.data[i]), "k") == 0)
            image.symbols.data[i].other &= (uint8_t)~GS_SASS_ENTRY;
    assert_int_equal(gs_sass_guard(&image, &list, &error), GS_OK);
    assert_int_equal(list.count, is_kernel ? 2 : 1);
    assert_int_equal(count_other_code(&image) > 0, architecture >= 100 && of_plain[0]); /* no guard: as it was */
    for (size_t i = 0; i < list.count; i++) {
        const char *expected = strcmp(list.data[i].kernel, "k") == 0 ? own : of_plain;
        assert_string_equal(list.data[i].refused ? list.data[i].refused : "", expected);
    }
    gs_sass_free(&image);
    gs_cubin_free(&cubin);
    gs_text_free(&text);
    free(list.data);
}

/* A block that another one takes does not run its guard, so it would be counted as not done, and run again. */
TEST(kernels_that_take_blocks_are_refused) {
    static const char taken[] = "it takes blocks that have not begun";
    static const char *const bodies[] = {TAKE(".shared::cta", "%r2", "%r3"), TAKE(".shared::cta", "%r4", "%r4+32"),
                                         TAKE("", "%d2", "%d2+16"), "@%p " TAKE(".shared::cta", "%r2", "%r3")};
    static const char other[] =
        ".visible .func other(.param .u32 n)\n{\n.reg .b32 %r<9>;\nld.param.u32 %r2, [n];\n" TAKE(".shared::cta", "%r2",
                                                                                                  "%r2+16") "ret;\n}\n";
    if (!has_ptxas())
        skip();
    for (size_t i = 0; i < GS_COUNT(architectures); i++) {
        int a = architectures[i];
        check_taker(a, "", "", true, "", "");
        for (size_t k = 0; k < GS_COUNT(bodies) && a >= 100; k++) {
            check_taker(a, "", bodies[k], true, taken, "");
            check_taker(a, "", bodies[k], false, "", taken);
        }
        if (a >= 100)
            check_taker(a, other, "{ .param .u32 n; st.param.u32 [n], %r2; call other, (n); }\n", true, taken, "");
    }
}

TEST_MAIN(NULL, NULL)
