/*
 * test_ptx_file.c: the kernels of a file are listed with their forms, and found by the names that people write; where a
 * form has its registers and its shared memory.
 */
#include "test.h"

#include "kernels/forms/forms.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/gridsmith-file-XXXXXX";

/* Three kernels: one without trouble, one that waits for other blocks, one whose functions are called, and reads the
   size of its grid there. */
static const char text[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry _Z3addPi(.param .u64 a)\n{\n\tret;\n}\n"
    ".visible .entry wait(.param .u64 a)\n{\n\t.reg .b64 %a; .reg .b32 %v; .reg .pred %p;\n\tld.param.u64 %a, [a];\n"
    "\tst.global.u32 [%a], 1;\n"
    "X:\tld.volatile.global.u32 %v, [%a];\n\tsetp.eq.u32 %p, %v, 0;\n\t@%p bra X;\n\tret;\n}\n"
    ".func (.param .b32 r) part(.param .b32 i)\n{\n\t.reg .b32 %r<3>;\n\tld.param.b32 %r1, [i];\n"
    "\tmov.u32 %r2, %nctaid.x;\n\tadd.u32 %r1, %r1, %r2;\n\tst.param.b32 [r], %r1;\n\tret;\n}\n"
    ".visible .entry _Z6reduceILi4EEvPi(.param .u64 a)\n{\n\t.reg .b32 %r<2>;\n"
    "\t{ .param .b32 i; .param .b32 r; st.param.b32 [i], 1; call.uni (r), part, (i); ld.param.b32 %r1, [r]; }\n"
    "\tret;\n}\n"
    ".visible .entry _Z6reduceILi8EEvPi(.param .u64 a)\n{\n\tret;\n}\n"
    ".visible .entry elsewhere(.param .u64 a);\n";

static int write_file(void **state) {
    (void)state;
    int fd = mkstemp(path);
    bool is_written = fd >= 0 && write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1;
    return is_written ? close(fd) : -1;
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

static gs_ptx_file open_file(int architecture) {
    gs_ptx_file file;
    gs_error error;
    gs_ptx_file_request request = {.path = path, .architecture = architecture};
    if (gs_ptx_file_open(&file, &request, &error) != GS_OK)
        fail_msg("%s", error.message);
    return file;
}

TEST(kernels_are_listed_with_their_forms) {
#define ACCEPTED                                                                                                       \
    "{\"accepted\":true,\"needs_whole_rows\":false,\"needs_one_row\":false,\"needs_one_layer\":false,"                 \
    "\"needs_queue\":false,\"most_blocks\":1073741824,\"needs_shared\":0}"
#define REFUSED                                                                                                        \
    "{\"accepted\":false,\"reason\":\"F:13:4: it waits in a loop for memory that another block may write in line "     \
    "12\","                                                                                                            \
    "\"line\":13,\"column\":4}"
    gs_ptx_file file = open_file(90);
    gs_ptx_options options = {.form = GS_FORM_PERSISTENT};
    gs_ptx_list_counts counts;
    gs_text list = {0}, plain = {0};
    assert_int_equal(gs_ptx_file_list(&file, "f.ptx", &options, &list, &counts, NULL), GS_OK);
    for (const char *at = list.data; *at;) { /* the path is another one each time */
        bool is_path = strncmp(at, path, strlen(path)) == 0;
        gs_text_put(&plain, is_path ? "F" : at, 1);
        at += is_path ? strlen(path) : 1;
    }
    assert_string_equal(plain.data,
                        "{\"schema\":\"gridsmith.reshape/2\",\"file\":\"f.ptx\",\"kernels\":["
                        "{\"kernel\":\"_Z3addPi\",\"name\":\"add(int*)\",\"module\":\"F\",\"persistent\":" ACCEPTED
                        ",\"confined\":" ACCEPTED "},"
                        "{\"kernel\":\"wait\",\"name\":\"wait\",\"module\":\"F\",\"persistent\":" REFUSED
                        ",\"confined\":" REFUSED "},"
                        "{\"kernel\":\"_Z6reduceILi4EEvPi\",\"name\":\"reduce<4>(int*)\",\"module\":\"F\","
                        "\"persistent\":" ACCEPTED ",\"confined\":" ACCEPTED "},"
                        "{\"kernel\":\"_Z6reduceILi8EEvPi\",\"name\":\"reduce<8>(int*)\",\"module\":\"F\","
                        "\"persistent\":" ACCEPTED ",\"confined\":" ACCEPTED "}]}\n");
    assert_int_equal(counts.kernels, 4);
    assert_int_equal(counts.accepted[GS_FORM_PERSISTENT], 3);
    assert_int_equal(counts.accepted[GS_FORM_CONFINED], 3);
    gs_text_free(&list);
    gs_text_free(&plain);
    gs_ptx_file_free(&file);
}

TEST(kernels_are_found_by_name) {
    static const struct {
        const char *name, *symbol, *message;
    } rows[] = {
        {"add", "_Z3addPi", NULL},
        {"_Z3addPi", "_Z3addPi", NULL},
        {"wait", "wait", NULL},
        {"reduce<4>", "_Z6reduceILi4EEvPi", NULL},
        {"reduce<8>", "_Z6reduceILi8EEvPi", NULL},
        {"reduce", NULL, "reduce matches several kernels of the file"},
        {"wiat", NULL, "the file has no kernel wiat (did you mean \"wait\"?)"},
        {"part", NULL, "the file has no kernel part"},
        {"elsewhere", NULL, "the file has no kernel elsewhere"},
    };
    gs_ptx_file file = open_file(80);
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_ptx_place place;
        gs_error error = {.message = ""};
        char symbol[100] = "";
        gs_code code = gs_ptx_file_find(&file, rows[i].name, &place, &error);
        assert_int_equal(code, rows[i].symbol ? GS_OK : GS_E_USAGE);
        if (code == GS_OK)
            gs_ptx_token_text(place.module, place.module->functions.data[place.function].name, symbol, sizeof symbol);
        assert_string_equal(symbol, rows[i].symbol ? rows[i].symbol : "");
        if (rows[i].message && !strstr(error.message, rows[i].message))
            fail_msg("%s: %s", rows[i].name, error.message);
        assert_null(strstr(error.message, "template"));
    }
    gs_ptx_file_free(&file);
}

/* PTX of a newer GPU is taken only if that is asked for; options are for sources. */
TEST(files_that_do_not_help_are_refused) {
    const char *option = "-O3";
    for (int which = 0; which < 4; which++) {
        gs_ptx_file file;
        gs_error error = {.message = ""};
        gs_ptx_file_request request = {.path = path,
                                       .options = &option,
                                       .option_count = which == 3,
                                       .architecture = which == 0 ? 80 : 75,
                                       .takes_newer = which >= 2};
        gs_code code = gs_ptx_file_open(&file, &request, &error);
        assert_int_equal(code, which % 2 ? GS_E_USAGE : GS_OK);
        if (code == GS_OK) {
            assert_int_equal(file.count, 1);
            gs_ptx_file_free(&file);
        }
        if (which == 1)
            assert_non_null(strstr(error.message, "has no PTX for sm_75 or lower"));
        if (which == 3)
            assert_non_null(strstr(error.message, "compiler options need a CUDA source"));
    }
}

/* A pointer may lead to any function of the file: that is well unless one of them reads the number of the block. */
TEST(pointers_lead_to_functions_that_know_no_block) {
    static const struct {
        const char *text, *what; /* NULL: it is no part of the launch */
    } reads[] = {{"add.u32 %r1, %r1, 1;", NULL},
                 {"mov.u32 %r2, %ctaid.x;", "the number of the block"},
                 {"mov.u32 %r2, %nctaid.y;", "the size of the grid"},
                 {"st.global.v2.u32 [%g+8], {%r1, %r1};", NULL},
                 {"mov.u32 %r2, %dynamic_smem_size;", "the size of dynamic shared memory"}};
    for (size_t i = 0; i < GS_COUNT(reads); i++) {
        gs_text module_text = {0};
        gs_ptx_module module;
        gs_error error = {.message = ""};
        gs_ptx_options options = {.form = GS_FORM_CONFINED};
        gs_text_add(&module_text,
                    ".version 8.0\n.target sm_80\n.address_size 64\n.global .align 8 .b32 place[8];\n"
                    ".func (.param .b32 r) twice(.param .b32 i)\n{\n\t.reg .b32 %%r<3>; .reg .b64 %%g;\n"
                    "\tmov.u64 %%g, place;\n\tld.param.b32 %%r1, [i];\n\t%s\n\tst.param.b32 [r], %%r1;\n\tret;\n}\n"
                    ".visible .entry k(.param .u64 a)\n{\n\t.reg .b64 %%f; .reg .b32 %%r<2>;\n\tmov.u64 %%f, twice;\n"
                    "\t{ .param .b32 i; .param .b32 r; st.param.b32 [i], 1;\n"
                    "\tP: .callprototype (.param .b32 _) _ (.param .b32 _);\n\tcall.uni (r), %%f, (i), P;\n"
                    "\tld.param.b32 %%r1, [r]; }\n\tret;\n}\n",
                    reads[i].text);
        if (gs_ptx_read(&module, "k.ptx", module_text.data, module_text.count, &error) != GS_OK)
            fail_msg("%ld: %s", error.line, error.message);
        gs_code code =
            gs_ptx_reshape(&module, (uint32_t)gs_ptx_find_function(&module, "k"), &options, NULL, NULL, &error);
        if (code != (reads[i].what ? GS_E_REFUSED : GS_OK) || (reads[i].what && !strstr(error.message, reads[i].what)))
            fail_msg("%s: \"%s\"", reads[i].text, error.message);
        gs_ptx_free(&module);
        gs_text_free(&module_text);
    }
}

/* A pointer leads only to functions whose address is taken, and to those that other modules may name. */
TEST(pointers_lead_to_functions_whose_address_is_taken) {
    static const struct {
        const char *before, *words, *in_kernel;
        bool is_refused;
    } rows[] = {
        {"", "", "call.uni of_block;", false},
        {"", "", "", false},
        {"", "", "mov.u64 %f, of_block;", true},
        {"", "", "call.uni %f, C; C: .calltargets plain, of_block;", true},
        {".global .align 8 .u64 table[2] = {plain, of_block};", "", "", true},
        {".func of_block;", "", "call.uni of_block;", false},
        {"", ".visible", "call.uni of_block;", true},
        {"", ".weak", "", true},
        {".func of_others;", "", "", true},
    };
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_text module_text = {0};
        gs_ptx_module module;
        gs_error error = {.message = ""};
        gs_ptx_options options = {.form = GS_FORM_CONFINED};
        gs_text_add(&module_text,
                    ".version 8.0\n.target sm_80\n.address_size 64\n%s\n%s .func of_block\n{\n\t.reg .b32 %%r<2>;\n"
                    "\tmov.u32 %%r1, %%ctaid.x;\n\tret;\n}\n.func plain\n{\n\tret;\n}\n"
                    ".visible .entry k(.param .u64 a)\n{\n\t.reg .b64 %%f;\n\tmov.u64 %%f, plain;\n"
                    "\tP: .callprototype _ ();\n\tcall.uni %%f, (), P;\n\t%s\n\tret;\n}\n",
                    rows[i].before, rows[i].words, rows[i].in_kernel);
        if (gs_ptx_read(&module, "k.ptx", module_text.data, module_text.count, &error) != GS_OK)
            fail_msg("%zu: %ld: %s", i, error.line, error.message);
        gs_code code =
            gs_ptx_reshape(&module, (uint32_t)gs_ptx_find_function(&module, "k"), &options, NULL, NULL, &error);
        if (code != (rows[i].is_refused ? GS_E_REFUSED : GS_OK))
            fail_msg("%zu: \"%s\"", i, error.message);
        gs_ptx_free(&module);
        gs_text_free(&module_text);
    }
}

/* PTX does not allow registers in shared memory beside dynamic shared memory. */
TEST(registers_in_shared_memory_are_refused_beside_that_of_the_form) {
    for (int is_behind = 0; is_behind < 2; is_behind++) {
        gs_text module_text = {0};
        gs_ptx_module module;
        gs_error error = {.message = ""};
        gs_ptx_options options = {.form = GS_FORM_PERSISTENT};
        gs_text_add(&module_text,
                    ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n"
                    "\t.pragma \"enable_smem_spilling\";\n\t.shared .b8 a[%d];\n\tst.shared.u8 [a], 1;\n\tret;\n}\n",
                    is_behind ? 49152 : 128);
        assert_int_equal(gs_ptx_read(&module, "k.ptx", module_text.data, module_text.count, &error), GS_OK);
        gs_code code =
            gs_ptx_reshape(&module, (uint32_t)gs_ptx_find_function(&module, "k"), &options, NULL, NULL, &error);
        assert_int_equal(code, is_behind ? GS_E_REFUSED : GS_OK);
        assert_true(!is_behind || strstr(error.message, "registers are kept in shared memory"));
        gs_ptx_free(&module);
        gs_text_free(&module_text);
    }
}

/* What a form keeps in shared memory is static where it fits into 48 KB, and else behind the dynamic shared memory,
   which a launch must make larger. */
TEST(shared_memory_is_where_it_fits) {
    static const struct {
        const char *outside, *inside, *use;
        bool is_added;
    } rows[] = {
        {"", "", "", false},
        {"", ".shared .b8 a[40000];", "st.shared.u8 [a], 1;", false},
        {"", ".shared .b8 a[48896];", "st.shared.u8 [a], 1;", false},
        {"", ".shared .b8 a[48897];", "st.shared.u8 [a], 1;", true},
        {"", ".shared .b8 a[49152];", "st.shared.u8 [a], 1;", true},
        /* the kernel's own variables come first */
        {".shared .align 128 .b8 a[48704];", ".shared .b8 b[129];", "st.shared.u8 [a], 1; st.shared.u8 [b], 1;", true},
        {".shared .b8 a[129];", ".shared .align 128 .b8 b[48704];", "st.shared.u8 [a], 1; st.shared.u8 [b], 1;", false},
        {"", ".shared .b8 a[24576]; .shared .b8 b[24576];", "st.shared.u8 [a], 1; st.shared.u8 [b], 1;", true},
        {".shared .b8 a[24576];", ".shared .b8 b[24576];", "st.shared.u8 [a], 1; st.shared.u8 [b], 1;", true},
        {".shared .b8 a[24576];", ".shared .b8 b[24576];", "st.shared.u8 [b], 1;", false},
        {".shared .b8 a[49152];", "", "st.shared.u8 [a+49151], 1;", true},
        {".extern .shared .align 16 .b8 a[];", "", "st.shared.u8 [a], 1;", true},
        {".extern .shared .align 16 .b8 a[];", "", "", false},
        {".global .b8 a[49152];", "", "st.global.u8 [a], 1;", false},
    };
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_text module_text = {0};
        gs_ptx_module module;
        gs_ptx_form form;
        gs_error error = {.message = ""};
        gs_ptx_options options = {.form = GS_FORM_PERSISTENT};
        gs_text_add(&module_text,
                    ".version 8.0\n.target sm_80\n.address_size 64\n%s\n.visible .entry k(.param .u64 p)\n{\n\t%s\n"
                    "\t%s\n\tret;\n}\n",
                    rows[i].outside, rows[i].inside, rows[i].use);
        if (gs_ptx_read(&module, "k.ptx", module_text.data, module_text.count, &error) != GS_OK ||
            gs_ptx_reshape(&module, 0, &options, NULL, &form, &error) != GS_OK)
            fail_msg("%ld: %s", error.line, error.message);
        if ((form.needs_shared > 0) != rows[i].is_added)
            fail_msg("%s %s %s: %u bytes are added", rows[i].outside, rows[i].inside, rows[i].use, form.needs_shared);
        gs_ptx_free(&module);
        gs_text_free(&module_text);
    }
}

/* The text of a form; freed by the caller. */
static gs_text form_of(const char *target, const char *limits, const char *body, uint32_t max_registers) {
    gs_text module_text = {0}, into = {0};
    gs_ptx_module module;
    gs_error error = {.message = ""};
    gs_ptx_options options = {.form = GS_FORM_PERSISTENT, .max_registers = max_registers};
    gs_text_add(&module_text,
                ".version 8.0\n.target %s\n.address_size 64\n.visible .entry k(.param .u64 p)%s\n{\n"
                "\t.reg .b32 %%r<9>;\n\t%s\n\tret;\n}\n",
                target, limits, body);
    if (gs_ptx_read(&module, "k.ptx", module_text.data, module_text.count, &error) != GS_OK ||
        gs_ptx_reshape(&module, 0, &options, &into, NULL, &error) != GS_OK)
        fail_msg("%ld: %s", error.line, error.message);
    gs_ptx_free(&module);
    gs_text_free(&module_text);
    return into;
}

/* The bytes of the parameters of the last function of a source. */
static uint64_t parameter_bytes(const gs_text *source) {
    gs_ptx_module module;
    uint64_t bytes = 0;
    assert_int_equal(gs_ptx_read(&module, "k.ptx", source->data, source->count, NULL), GS_OK);
    const gs_ptx_function *function = &module.functions.data[module.functions.count - 1];
    for (uint32_t i = 0; i < function->parameter_count; i++) {
        const gs_ptx_variable *variable = &module.variables.data[function->parameters + i];
        uint64_t align = gs_max_u64(variable->align, 1);
        bytes = (bytes + align - 1) / align * align + variable->bytes;
    }
    gs_ptx_free(&module);
    return bytes;
}

/* A form has as many parameters as PTX allows, and no more. */
TEST(parameters_are_as_many_as_ptx_allows) {
    static const struct {
        const char *version;
        uint64_t most;
    } rows[] = {{"8.0", 4352}, {"8.1", 32764}};
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_code code = GS_E_REFUSED;
        for (uint64_t bytes = rows[i].most / 8 * 8; code == GS_E_REFUSED; bytes -= 8) {
            gs_text source = {0};
            gs_ptx_module module;
            gs_error error = {.message = ""};
            gs_ptx_options options = {.form = GS_FORM_PERSISTENT};
            assert_true(bytes > 4000);
            gs_text_add(&source,
                        ".version %s\n.target sm_80\n.address_size 64\n.visible .entry k(.param .align 8 .b8 p[%llu])\n"
                        "{\n\tret;\n}\n",
                        rows[i].version, (unsigned long long)bytes);
            assert_int_equal(gs_ptx_read(&module, "k.ptx", source.data, source.count, &error), GS_OK);
            gs_text form = {0};
            code = gs_ptx_reshape(&module, 0, &options, &form, NULL, &error);
            if (code == GS_OK) {
                gs_text_put(&source, form.data, form.count);
                assert_in_range(parameter_bytes(&source), rows[i].most - 7, rows[i].most);
            } else {
                assert_non_null(strstr(error.message, "bytes of parameters"));
            }
            gs_ptx_free(&module);
            gs_text_free(&form);
            gs_text_free(&source);
        }
        assert_int_equal(code, GS_OK);
    }
}

/* A name is copied, with what is added to it for a form. */
TEST(names_have_a_length) {
    enum { MOST = 3996 };
    static char name[MOST + 2];
    for (int length = MOST; length <= MOST + 1; length++) {
        gs_text source = {0}, form = {0};
        gs_ptx_module module;
        gs_error error = {.message = ""};
        gs_ptx_options options = {.form = GS_FORM_PERSISTENT};
        memset(name, 'k', (size_t)length);
        gs_text_add(&source, ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry %s()\n{\n\tret;\n}\n",
                    name);
        assert_int_equal(gs_ptx_read(&module, "k.ptx", source.data, source.count, &error), GS_OK);
        gs_code code = gs_ptx_reshape(&module, 0, &options, &form, NULL, &error);
        assert_int_equal(code, length == MOST ? GS_OK : GS_E_REFUSED);
        if (code == GS_OK)
            assert_non_null(strstr(form.data, name));
        else
            assert_string_equal(error.message, "its name has more than 3996 bytes");
        gs_ptx_free(&module);
        gs_text_free(&form);
        gs_text_free(&source);
    }
}

/* A form says which grids it cannot have, and why. */
TEST(grids_that_do_not_fit_are_refused) {
    static const char large[] = "its form may have at most 2^30 blocks",
                      wraps[] = "an index by which it waits may wrap", rows[] = "a multiple of 32 threads wide",
                      row[] = "a grid of one row", layer[] = "a grid of one layer";
    static const struct {
        gs_ptx_form form;
        uint32_t grid[3], width;
        const char *words; /* NULL: it fits */
    } cases[] = {{{.most_blocks = 1 << 30}, {1 << 30, 1, 1}, 7, NULL},
                 {{.most_blocks = 1 << 30}, {1 << 15, 1 << 10, 32}, 7, NULL},
                 {{.most_blocks = 1 << 30}, {(1 << 30) + 1, 1, 1}, 7, large},
                 {{.most_blocks = 1 << 30}, {1 << 15, 1 << 15, 2}, 7, large},
                 {{.most_blocks = 1000}, {10, 10, 10}, 7, NULL},
                 {{.most_blocks = 1000}, {1001, 1, 1}, 7, wraps},
                 {{.most_blocks = 1000, .needs_whole_rows = true}, {1, 1, 1}, 64, NULL},
                 {{.most_blocks = 1000, .needs_whole_rows = true}, {1, 1, 1}, 65, rows},
                 {{.most_blocks = 1000, .needs_one_row = true}, {1000, 1, 1}, 7, NULL},
                 {{.most_blocks = 1000, .needs_one_row = true}, {1, 2, 1}, 7, row},
                 {{.most_blocks = 1000, .needs_one_row = true}, {1, 1, 2}, 7, row},
                 {{.most_blocks = 1000, .needs_one_layer = true}, {10, 100, 1}, 7, NULL},
                 {{.most_blocks = 1000, .needs_one_layer = true}, {1, 1, 2}, 7, layer}};
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        const char *found = gs_ptx_form_misfit(&cases[i].form, cases[i].grid, (uint32_t[]){cases[i].width, 1, 1});
        assert_int_equal(found != NULL, cases[i].words != NULL);
        if (found)
            assert_non_null(strstr(found, cases[i].words));
    }
}

static int count_in(const char *where, const char *what) {
    int count = 0;
    for (; (where = strstr(where, what)); where++)
        count++;
    return count;
}

/* A limit of registers is in the head of a form, unless the source has one. */
TEST(registers_are_limited) {
    static const struct {
        const char *limits;
        uint32_t most;
        const char *found; /* NULL: none */
    } rows[] = {{"", 0, NULL}, {"", 64, ".maxnreg 64\n{"}, {".maxnreg 40", 64, ".maxnreg 40\n{"}};
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_text form = form_of("sm_80", rows[i].limits, "", rows[i].most);
        assert_non_null(strstr(form.data, ".entry k__persistent(.param .u64 p,\n"));
        assert_int_equal(count_in(form.data, ".maxnreg"), rows[i].found != NULL);
        if (rows[i].found)
            assert_non_null(strstr(form.data, rows[i].found));
        gs_text_free(&form);
    }
}

/* With many registers, the parts of the block's number that the kernel reads are in registers that a warp shares; GPUs
   before sm_80 have no instruction for that. */
TEST(parts_of_the_block_are_uniform) {
    static const char *const bodies[] = {"", "mov.u32 %r1, %ctaid.x;", "mov.u32 %r1, %ctaid.z;",
                                         "add.u32 %r1, %ctaid.x, %ctaid.y;"};
    static const int parts[] = {0, 1, 1, 2};
    for (size_t i = 0; i < GS_COUNT(bodies); i++) {
        gs_text many = form_of("sm_80", "", bodies[i], 200), few = form_of("sm_80", "", bodies[i], 32),
                old = form_of("sm_75", "", bodies[i], 200);
        assert_int_equal(count_in(many.data, "redux.sync"), parts[i]);
        assert_int_equal(count_in(few.data, "redux.sync"), 0);
        assert_int_equal(count_in(old.data, "redux.sync"), 0);
        gs_text_free(&many);
        gs_text_free(&few);
        gs_text_free(&old);
    }
}

/* What a kernel starts, and does not wait for, ends before its next block begins; also if a function starts it, or one
   that this calls. */
TEST(what_a_block_starts_ends_with_it) {
    static const char *const rows[][2] = {
        {"cp.async.ca.shared.global [%r], [%d], 4;", "cp.async.wait_all;"},
        {"cp.async.bulk.global.shared::cta.bulk_group [%d], [%r], 16;", "cp.async.bulk.wait_group 0;"},
        {"wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"}};
    enum { DEPTHS = 3 };
    for (size_t i = 0; i <= GS_COUNT(rows) * DEPTHS; i++) {
        bool is_none = i == GS_COUNT(rows) * DEPTHS;
        size_t depth = i % DEPTHS;
        gs_text source = {0}, form = {0};
        gs_ptx_module module;
        gs_error error = {.message = ""};
        gs_ptx_options options = {.form = GS_FORM_PERSISTENT};
        gs_text_add(&source, ".version 8.0\n.target sm_90a\n.address_size 64\n");
        for (size_t at = DEPTHS; at-- > 0;) {
            if (at)
                gs_text_add(&source, ".func f%zu()\n", at);
            else
                gs_text_add(&source, ".visible .entry k(.param .u64 p)\n");
            gs_text_add(&source, "{\n\t.reg .b32 %%r;\n\t.reg .b64 %%d;\n\tmov.u32 %%r, 0;\n\tmov.u64 %%d, 0;\n");
            if (at == depth && !is_none)
                gs_text_add(&source, "%s", rows[i / DEPTHS][0]);
            if (at + 1 < DEPTHS)
                gs_text_add(&source, "\n\tcall.uni f%zu;\n", at + 1);
            gs_text_add(&source, "\n\tret;\n}\n");
        }
        if (gs_ptx_read(&module, "k.ptx", source.data, source.count, &error) != GS_OK ||
            gs_ptx_reshape(&module, DEPTHS - 1, &options, &form, NULL, &error) != GS_OK)
            fail_msg("%s%ld: %s", source.data, error.line, error.message);
        const char *end = strstr(form.data, "$gs_next:");
        assert_non_null(end);
        for (size_t k = 0; k < GS_COUNT(rows); k++)
            assert_int_equal(count_in(end, rows[k][1]), !is_none && k == i / DEPTHS);
        gs_ptx_free(&module);
        gs_text_free(&source);
        gs_text_free(&form);
    }
}

TEST_MAIN(write_file, remove_file)
