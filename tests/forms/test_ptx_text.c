/*
 * test_ptx_text.c: the text of a form. What is put into a kernel changes nothing else in it, wherever a statement
 * stands, whatever names are taken, and however much shared memory there is.
 *
 * Each case is the middle of a kernel, in PTX. It computes %v from %t, the number of the thread, and %b, that of the
 * block; the frame around it stores %v. Cases that are accepted run on the CPU as original, persistent and confined
 * (run_forms.c), and NVIDIA's assembler takes their forms, if it is installed.
 */
#include "test.h"

#include "run_forms.h"
#include "variations.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct text_case {
    const char *name, *body;
    const char *module; /* what stands in front of the kernel, or NULL */
    const char *refuse; /* the message, or NULL: it is accepted */
    uint32_t shared;    /* dynamic shared memory, in bytes */
};

static const struct text_case cases[] = {
    /* ---- braces ---- */
    {.name = "labels_of_two_braces",
     .body = "{ X: add.u32 %v, %v, 3; setp.lt.u32 %p0, %v, 40; @%p0 bra X; }\n"
             "bar.sync 0;\n"
             "{ X: add.u32 %v, %v, 5; setp.lt.u32 %p0, %v, 90; @%p0 bra X; }\n"},
    {.name = "label_before_its_place",
     .body = "{ setp.gt.u32 %p0, %t, 9; @%p0 bra X; add.u32 %v, %v, 7; X: }\n"
             "{ setp.lt.u32 %p0, %t, 5; @%p0 bra X; add.u32 %v, %v, 11; X: }\nbar.sync 0;\n"},
    {.name = "label_of_outer_braces",
     .body = "X: add.u32 %v, %v, 1; { { setp.lt.u32 %p0, %v, 50; @%p0 bra X; } }\nbar.sync 0;\n"},
    {.name = "label_that_hides_another",
     .body = "mov.u32 %r1, 0;\nX: add.u32 %r1, %r1, 1;\n"
             "{ setp.gt.u32 %p0, %t, 30; @%p0 bra X; add.u32 %v, %v, 100; X: add.u32 %v, %v, 1; }\n"
             "setp.lt.u32 %p0, %r1, 3; @%p0 bra X;\nbar.sync 0;\n"},
    {.name = "labels_deep_inside",
     .body = "{ { { X: add.u32 %v, %v, 1; setp.lt.u32 %p0, %v, 9; @%p0 bra X; } X: add.u32 %v, %v, 2;\n"
             "setp.lt.u32 %p0, %v, 30; @%p0 bra X; } X: add.u32 %v, %v, 3; setp.lt.u32 %p0, %v, 60;\n"
             "@%p0 bra X; }\nbar.sync 0;\n"},
    /* ---- constants ---- */
    {.name = "expressions_in_barriers",
     .body = "bar.sync (1+1), (32*2); bar.sync 7-4, WARP_SZ*2; bar.red.popc.u32 %r1, 1-1, !0; add.u32 %v, %v, %r1;\n"},
    {.name = "expressions_behind_exits",
     .body = "setp.eq.u32 %p0, %t, 40; @%p0 bra X; vote.sync.ballot.b32 %r1, 1, ~0; add.u32 %v, %v, %r1;\n"
             "bar.red.popc.u32 %r1, 0, 2-1; add.u32 %v, %v, %r1; bar.red.and.pred %p2, 0, 1<0;\n"
             "@%p2 add.u32 %v, %v, 5; bar.warp.sync (1<<31)|0x7fffffff; X:\n"},
    {.name = "expressions_in_addresses",
     .body = "{ .shared .align 4 .b32 s[64]; st.shared.u32 [s + 4*3], %b; mov.u32 %r1, s; bar.sync 0;\n"
             "ld.shared.u32 %r2, [s+(1<<3)+4]; ld.shared.u32 %r3, [%r1+2*6]; add.u32 %v, %r2, %r3; bar.sync 0; }\n"},
    {.name = "expressions_with_the_block",
     .body = "mad.lo.u32 %v, %b, (1<<4)|3, 5 > 3 ? 7 : 9; mov.b64 %d1, {1+1, %t}; mov.b64 {%r1, %r2}, %d1;\n"
             "add.u32 %v, %v, %r1; mov.u32 %r1, %ctaid.x; add.u32 %v, %v, %r1;\n"},
    /* ---- braces ---- */
    {.name = "labels_on_one_line", .body = "{ X: Y: Z: add.u32 %v, %v, 2; setp.lt.u32 %p0, %v, 33; @%p0 bra Y; }\n"},
    {.name = "registers_of_two_braces",
     .body = "{ .reg .b32 a; .reg .b64 %r1; mov.u64 %r1, 5; cvt.u32.u64 a, %r1; add.u32 %v, %v, a; }\n"
             "{ .reg .b64 a; mov.u64 a, 9; cvt.u32.u64 %r1, a; add.u32 %v, %v, %r1; }\n"},
    {.name = "fewer_registers_inside",
     .body = "mov.u32 %r9, 77; { .reg .b32 %r<3>; mov.u32 %r2, 4; add.u32 %v, %r9, %r2; }\n"},
    {.name = "one_register_around_many",
     .body = "{ .reg .b32 q1; mov.u32 q1, 5; { .reg .b32 q<4>; mov.u32 q1, 6; }\n"
             "add.u32 %v, %v, q1; }\n"},
    {.name = "table_of_outer_labels",
     .body = "rem.u32 %r1, %t, 3;\n{ ts: .branchtargets A, B, C; brx.idx %r1, ts; }\n"
             "A: add.u32 %v, %v, 1000;\nB: add.u32 %v, %v, 100;\nC: add.u32 %v, %v, 10;\nbar.sync 0;\n"},
    {.name = "two_tables_of_one_name",
     .body = "rem.u32 %r1, %t, 2;\n"
             "{ ts: .branchtargets A, B; brx.idx %r1, ts; A: add.u32 %v, %v, 1; B: }\n"
             "{ ts: .branchtargets A, B; brx.idx %r1, ts; A: add.u32 %v, %v, 4; B: }\nbar.sync 0;\n"},
    {.name = "table_seen_from_inside",
     .body = "rem.u32 %r1, %t, 2;\nts: .branchtargets A, B;\n"
             "{ brx.idx %r1, ts; A: add.u32 %v, %v, 50; B: }\nA: add.u32 %v, %v, 3; B:\nbar.sync 0;\n"},
    {.name = "label_like_the_kernel",
     .body = "label_like_the_kernel: add.u32 %v, %v, 9; setp.lt.u32 %p0, %v, 70;\n"
             "@%p0 bra label_like_the_kernel;\n"},
    {.name = "return_from_inside",
     .body = "{ setp.gt.u32 %p0, %t, 40; @%p0 ret; { @!%p0 bra X; exit; X: } }\nbar.sync 0;\n"},
    {.name = "arguments_in_braces",
     .body = "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %t; call (b), twice, (a); ld.param.b32 %v, [b]; }\n"
             "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %v; call (b), twice, (a); ld.param.b32 %v, [b]; }\n",
     .module = ".func (.param .b32 b) twice(.param .b32 a) { .reg .b32 %r<3>; ld.param.u32 %r1, [a];\n"
               "{ X: add.u32 %r1, %r1, 1; }\n{ .reg .pred %p; X: add.u32 %r1, %r1, %r1; setp.lt.u32 %p, %r1, 20; @%p "
               "bra X; }\n"
               "st.param.b32 [b], %r1; ret; }\n"},
    {.name = "labels_of_a_copied_function",
     .body = "{ .param .b32 b; call (b), where, (); ld.param.b32 %v, [b]; }\n",
     .module = ".func (.param .b32 b) where() { .reg .b32 %r<4>; .reg .pred %p; mov.u32 %r1, %ctaid.x; mov.u32 %r2, "
               "%ctaid.y;\n"
               "{ X: add.u32 %r1, %r1, 3; setp.lt.u32 %p, %r1, 9; @%p bra X; }\n"
               "{ X: add.u32 %r2, %r2, 5; setp.lt.u32 %p, %r2, 20; @%p bra X; }\n"
               "mad.lo.u32 %r1, %r2, 100, %r1; st.param.b32 [b], %r1; ret; }\n"},
    {.name = "variables_in_braces",
     .body = "{ .shared .align 4 .b8 s[256]; .reg .b32 a; mov.u32 a, s; mad.lo.u32 a, %t, 4, a;\n"
             "st.shared.u32 [a], %b; bar.sync 0; ld.shared.u32 %r1, [a]; add.u32 %v, %v, %r1; }\n"
             "{ .local .align 8 .b8 s[8]; st.local.u64 [s], 12; ld.local.u64 %d1, [s];\n"
             "cvt.u32.u64 %r1, %d1; add.u32 %v, %v, %r1; }\n"},

    /* ---- statements that are taken out ---- */
    {.name = "dependents_on_a_line",
     .body = "add.u32 %v, %v, 1; griddepcontrol.launch_dependents; add.u32 %v, %v, 2;\n"},
    {.name = "dependents_in_braces", .body = "{ griddepcontrol.launch_dependents; } add.u32 %v, %v, 2;\n"},
    {.name = "dependents_before_a_brace", .body = "{ add.u32 %v, %v, 2; griddepcontrol.launch_dependents; }\n"},
    {.name = "dependents_after_a_label",
     .body = "{ setp.gt.u32 %p0, %t, 5; @%p0 bra X; add.u32 %v, %v, 2;\n"
             "X: griddepcontrol.launch_dependents; }\n"},
    {.name = "dependents_with_a_guard",
     .body = "setp.eq.u32 %p0, %t, 0; @%p0 griddepcontrol.launch_dependents; add.u32 %v, %v, 4;\n"},
    {.name = "dependents_without_the_guard",
     .body = "setp.eq.u32 %p0, %t, 0; @!%p0 griddepcontrol.launch_dependents; bar.sync 0;\n"},
    {.name = "dependents_over_lines",
     .body = "griddepcontrol // waits\n.wait; /* on */ griddepcontrol.wait;\n"
             "griddepcontrol.launch_dependents\n; add.u32 %v, %v, 4;\n",
     .refuse = "unknown instruction"},
    {.name = "dependents_and_a_wait",
     .body = "griddepcontrol.wait; griddepcontrol.launch_dependents\n;add.u32 %v, %v, 4;\n"},
    {.name = "return_on_a_line",
     .body = "setp.gt.u32 %p0, %t, 9; @%p0 ret; add.u32 %v, %v, 2; @%p0 exit; add.u32 %v, %v, 5;\n"},
    {.name = "comments_everywhere",
     .body = "/* a { */ add.u32 %v, %v, /* ; */ 1; // }\n mov.u32 %r1, %ctaid.x /* ret; */; // ret;\n"
             "add.u32 %v, %v, %r1;\n"},
    {.name = "line_markers",
     .body = "# 12 \"file.cu\"\n add.u32 %v, %v, 3;\n#line 3 \"a\"\n  # 4 \"b\" 1\n mov.u32 %r1, %ctaid.y; add.u32 %v, "
             "%v, %r1;\n"},

    /* ---- special registers ---- */
    {.name = "half_of_the_block",
     .body = "mov.u16 %h0, %ctaid.x; mov.b16 %h1, %ctaid.y; mov.s16 %h2, %ctaid.z;\n"
             "cvt.u32.u16 %r1, %h0; cvt.u32.u16 %r2, %h1; cvt.u32.u16 %r3, %h2;\n"
             "mad.lo.u32 %v, %r1, 10, %r2; mad.lo.u32 %v, %v, 10, %r3;\n"},
    {.name = "half_of_the_grid", .body = "mov.u16 %h0, %nctaid.x; @%p1 mov.u16 %h0, %nctaid.y; cvt.u32.u16 %v, %h0;\n"},
    {.name = "converted_blocks",
     .body = "cvt.u16.u32 %h0, %ctaid.x; cvt.u32.u16 %r1, %h0; cvt.u64.u32 %d1, %ctaid.y; cvt.u32.u64 %r2, %d1;\n"
             "cvt.u32.u8 %r3, %ctaid.z; cvt.s32.s16 %r4, %nctaid.z; cvt.u32.u16 %r5, %nctaid.y;\n"
             "mad.lo.u32 %v, %r1, 10, %r2; mad.lo.u32 %v, %v, 10, %r3; mad.lo.u32 %v, %v, 10, %r4;\n"
             "mad.lo.u32 %v, %v, 10, %r5;\n"},
    {.name = "two_parts_of_the_grid",
     .body = "mov.b64 %d1, {%nctaid.x, %nctaid.y}; mov.b64 {%r1, %r2}, %d1; mad.lo.u32 %v, %r1, 100, %r2;\n"},
    {.name = "parts_of_both",
     .body = "mov.b64 %d1, {%ctaid.z, %nctaid.z}; mov.b64 {%r1, %r2}, %d1; mad.lo.u32 %v, %r1, 100, %r2;\n"},
    {.name = "stored_parts",
     .body = "{ .shared .align 16 .b8 s[16]; st.shared.v4.u32 [s], {%nctaid.z, %nctaid.y, %nctaid.x, %ctaid.y};\n"
             "bar.sync 0; ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [s]; mad.lo.u32 %v, %r1, 10, %r2;\n"
             "mad.lo.u32 %v, %v, 10, %r3; mad.lo.u32 %v, %v, 10, %r4; }\n"},
    {.name = "halves_of_a_part",
     .body = "mov.b32 {%h0, %h1}, %ctaid.x; mov.b32 {%h2, %h3}, %nctaid.x; cvt.u32.u16 %r1, %h0;\n"
             "cvt.u32.u16 %r2, %h2; mad.lo.u32 %v, %r1, 10, %r2;\n"},
    {.name = "guarded_parts",
     .body = "setp.gt.u32 %p0, %t, 20; mov.u32 %r1, 0; @%p0 mov.u32 %r1, %nctaid.x; @!%p0 mov.u32 %r1, %ctaid.x;\n"
             "add.u32 %v, %v, %r1; L: mov.u32 %r2, %nctaid.y; add.u32 %v, %v, %r2;\n"},
    {.name = "parts_in_a_function",
     .body = "{ .param .b32 b; call (b), parts, (); ld.param.b32 %v, [b]; }\n",
     .module =
         ".func (.param .b32 b) parts() { .reg .b32 %r<8>; .reg .b64 %d; .reg .b16 %h; mov.u16 %h, %ctaid.x;\n"
         "cvt.u32.u16 %r1, %h; mov.b64 %d, {%nctaid.x, %nctaid.y}; mov.b64 {%r2, %r3}, %d; { mov.u16 %h, %nctaid.z; }\n"
         "cvt.u32.u16 %r4, %h; mad.lo.u32 %r1, %r1, 10, %r2; mad.lo.u32 %r1, %r1, 10, %r3; mad.lo.u32 %r1, %r1, 10, "
         "%r4;\n"
         "st.param.b32 [b], %r1; ret; }\n"},
    {.name = "whole_vector",
     .body = "{ .reg .v4 .u32 %w; mov.v4.u32 %w, %ctaid; mov.u32 %v, %w.y; }\n",
     .refuse = "it reads the number of its block, or the size of the grid, as a vector"},
    {.name = "fourth_part",
     .body = "mov.u32 %v, %ctaid.w;\n",
     .refuse = "it reads the number of its block, or the size of the grid, as a vector"},
    {.name = "register_like_a_special_one",
     .body = "{ .reg .b32 %ctaid; mov.u32 %ctaid, 5; add.u32 %v, %v, %ctaid; }\n"},

    /* ---- shared memory ---- */
    {.name = "place_of_dynamic_memory",
     .module = ".extern .shared .align 16 .b8 dynamic16[];\n",
     .shared = 2000,
     .body = "mov.u32 %r1, dynamic16; mad.lo.u32 %r2, %t, 4, %r1; st.shared.u32 [%r2], %b; bar.sync 0;\n"
             "ld.shared.u32 %r3, [%r2]; mad.lo.u32 %v, %r3, 100000, %r1;\n"},
    {.name = "place_at_4",
     .module = ".extern .shared .align 4 .b8 dynamic4[];\n",
     .shared = 444,
     .body = "{ .shared .align 4 .b8 s[20]; mov.u32 %r1, dynamic4; mov.u32 %r2, s; st.shared.u32 [%r1+440], %b;\n"
             "bar.sync 0; ld.shared.u32 %r3, [dynamic4+440]; st.shared.u32 [s], %r1; mad.lo.u32 %v, %r3, 1000, %r1;\n"
             "mad.lo.u32 %v, %v, 1000, %r2; }\n"},
    {.name = "place_at_1024",
     .module = ".extern .shared .align 1024 .b8 dynamic1024[];\n",
     .shared = 4096,
     .body =
         "{ .shared .align 4 .b8 s[4]; st.shared.u32 [s], 1; mov.u32 %r1, dynamic1024; mad.lo.u32 %r2, %t, 64, %r1;\n"
         "xor.b32 %r2, %r2, 48; st.shared.u32 [%r2], %b; bar.sync 0; ld.shared.u32 %r3, [%r2];\n"
         "mad.lo.u32 %v, %r3, 10000, %r1; }\n"},
    {.name = "swizzle_without_alignment",
     .module = ".extern .shared .align 1 .b8 dynamic1[];\n",
     .shared = 64 * 128,
     .body = "mov.u32 %r1, dynamic1; mad.lo.u32 %r2, %t, 128, %r1; and.b32 %r3, %t, 7; shl.b32 %r3, %r3, 4;\n"
             "xor.b32 %r2, %r2, %r3; st.shared.u32 [%r2], %v; bar.sync 0; xor.b32 %r4, %t, 1;\n"
             "mad.lo.u32 %r2, %r4, 128, %r1; and.b32 %r3, %r4, 7; shl.b32 %r3, %r3, 4; xor.b32 %r2, %r2, %r3;\n"
             "ld.shared.u32 %v, [%r2];\n"},
    {.name = "two_dynamic_arrays",
     .module = ".extern .shared .align 16 .b8 first16[];\n.extern .shared .align 256 .b8 second256[];\n",
     .shared = 1024,
     .body = "{ .shared .align 4 .b8 s[36]; st.shared.u32 [s], %b; mov.u32 %r1, first16; mov.u32 %r2, second256;\n"
             "st.shared.u32 [%r2+1000], %b; bar.sync 0; ld.shared.u32 %r3, [%r2+1000];\n"
             "mad.lo.u32 %v, %r3, 1000, %r1; mad.lo.u32 %v, %v, 1000, %r2; }\n"},
    {.name = "end_of_dynamic_memory",
     .module = ".extern .shared .align 16 .b8 whole[];\n",
     .shared = 256,
     .body = "mov.u32 %r1, whole; mad.lo.u32 %r1, %t, 4, %r1; st.shared.u32 [%r1], %v; bar.sync 0; bar.sync 0;\n"
             "ld.shared.u32 %v, [%r1];\n"},
    {.name = "size_of_dynamic_memory",
     .module = ".extern .shared .align 16 .b8 measured[];\n",
     .shared = 321,
     .body = "st.shared.u32 [measured], %t; bar.sync 0; mov.u32 %v, %dynamic_smem_size; mov.u32 %r1, %nctaid.x;\n"
             "mad.lo.u32 %v, %v, 10, %r1;\n"},
    {.name = "memory_without_an_array",
     .shared = 2048,
     .body = "mad.lo.u32 %r1, %t, 4, 1024; st.shared.u32 [%r1], %b; bar.sync 0; xor.b32 %r2, %r1, 4;\n"
             "ld.shared.u32 %v, [%r2]; bar.sync 0;\n"},
    {.name = "generic_memory_without_an_array",
     .shared = 2048,
     .body =
         "mov.u64 %d1, 1024; cvta.shared.u64 %d2, %d1; mad.wide.u32 %d2, %t, 4, %d2; st.u32 [%d2], %b; bar.sync 0;\n"
         "ld.u32 %v, [%d2]; bar.sync 0;\n"},
    {.name = "memory_of_a_function_without_an_array",
     .shared = 2048,
     .module = ".func put_in_shared(.param .b32 a, .param .b32 b) {\n.reg .b32 %r<3>; ld.param.u32 %r1, [a];\n"
               "ld.param.u32 %r2, [b]; st.shared.u32 [%r1], %r2; bar.sync 0; ret; }\n",
     .body =
         "mad.lo.u32 %r1, %t, 4, 1024; { .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; st.param.b32 [y], %b;\n"
         "call.uni put_in_shared, (x, y); } ld.shared.u32 %v, [%r1]; bar.sync 0;\n"},
    {.name = "size_without_an_array", .shared = 640, .body = "mov.u32 %v, %dynamic_smem_size;\n"},
    {.name = "size_and_grid",
     .module = ".extern .shared .align 16 .b8 other[];\n",
     .shared = 32,
     .body = "st.shared.u32 [other], %t; mov.b64 %d1, {%dynamic_smem_size, %nctaid.x}; mov.b64 {%r1, %r2}, %d1;\n"
             "mad.lo.u32 %v, %r1, 10, %r2; bar.sync 0;\n"},
    {.name = "dynamic_memory_in_a_function",
     .shared = 768,
     .module = ".extern .shared .align 32 .b8 of_function[];\n.func (.param .b32 b) dynamic(.param .b32 a) {\n"
               ".reg .b32 %r<8>; ld.param.u32 %r1, [a]; mov.u32 %r2, of_function; mad.lo.u32 %r3, %r1, 4, %r2;\n"
               "mov.u32 %r4, %ctaid.x; st.shared.u32 [%r3], %r4; bar.sync 0; mov.u32 %r5, %dynamic_smem_size;\n"
               "mov.u32 %r6, %nctaid.y; ld.shared.u32 %r4, [%r3]; mad.lo.u32 %r4, %r4, 1000, %r5;\n"
               "mad.lo.u32 %r4, %r4, 10, %r6; st.param.b32 [b], %r4; ret; }\n",
     .body = "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %t; call (b), dynamic, (a); ld.param.b32 %v, [b]; }\n"},
    {.name = "exited_threads_and_dynamic_memory",
     .module = ".extern .shared .align 16 .b8 left[];\n",
     .shared = 256,
     .body =
         "mov.u32 %r1, left; mad.lo.u32 %r1, %t, 4, %r1; st.shared.u32 [%r1], %v; setp.gt.u32 %p0, %t, 40; @%p0 ret;\n"
         "bar.sync 0; ld.shared.u32 %v, [%r1]; setp.gt.u32 %p0, %t, 20; @%p0 bra X; bar.sync 0; X: add.u32 %v, %v, "
         "1;\n",
     .refuse = NULL},
    {.name = "place_of_variables",
     .module = ".shared .align 4 .b8 of_module[20];\n",
     .body =
         "{ .shared .align 4 .b8 a[4]; .shared .align 16 .b8 b[32]; .shared .align 1 .b8 c[3]; st.shared.u8 [c], 1;\n"
         "st.shared.u32 [a], 1; st.shared.u32 [b], 1; st.shared.u32 [of_module], 1; mov.u32 %r1, a; mov.u32 %r2, b;\n"
         "mov.u32 %r3, c; mov.u32 %r4, of_module; mad.lo.u32 %v, %r1, 1000, %r2; mad.lo.u32 %v, %v, 1000, %r3;\n"
         "mad.lo.u32 %v, %v, 1000, %r4; }\n"},
    {.name = "variables_of_a_function",
     .module = ".shared .align 4 .b8 between[12];\n.func (.param .b32 b) declares() { .reg .b32 %r<4>;\n"
               ".shared .align 4 .b8 inside[8]; st.shared.u32 [inside], 3; mov.u32 %r1, inside; mov.u32 %r2, between;\n"
               "mov.u32 %r3, %ctaid.x; mad.lo.u32 %r1, %r1, 1000, %r2; mad.lo.u32 %r1, %r1, 10, %r3;\n"
               "st.param.b32 [b], %r1; ret; }\n",
     .body = "{ .param .b32 b; call (b), declares, (); ld.param.b32 %v, [b]; } bar.sync 0;\n"},
    {.name = "all_static_memory",
     .body = "{ .shared .align 4 .b8 s[49152]; mov.u32 %r1, s; mad.lo.u32 %r2, %t, 768, %r1; st.shared.u32 [%r2], %v;\n"
             "bar.sync 0; xor.b32 %r3, %t, 3; mad.lo.u32 %r2, %r3, 768, %r1; ld.shared.u32 %v, [%r2]; }\n"},
    {.name = "almost_all_static_memory",
     .body = "{ .shared .align 4 .b8 s[49017]; mov.u32 %r1, s; mad.lo.u32 %r2, %t, 760, %r1; st.shared.u32 [%r2], %v;\n"
             "bar.sync 0; ld.shared.u32 %v, [%r2]; add.u32 %v, %v, %r1; }\n"},
    {.name = "just_enough_static_memory",
     .body = "{ .shared .align 4 .b8 s[48896]; mov.u32 %r1, s; mad.lo.u32 %r2, %t, 760, %r1; st.shared.u32 [%r2], %v;\n"
             "bar.sync 0; ld.shared.u32 %v, [%r2]; add.u32 %v, %v, %r1; }\n"},

    /* ---- names ---- */
    {.name = "long_name", .body = "mov.u32 %r1, %ctaid.y; add.u32 %v, %v, %r1; bar.sync 0;\n"},
    {.name = "alias_of_a_function",
     .module = ".func (.param .b32 b) other_name();\n.func (.param .b32 b) real_name() { .reg .b32 %r<2>; mov.u32 %r1, "
               "%ctaid.y;\nst.param.b32 [b], %r1; ret; }\n.alias other_name, real_name;\n",
     .body = "{ .param .b32 b; call (b), other_name, (); ld.param.b32 %v, [b]; }\n"},
    {.name = "form_taken",
     .module = ".visible .entry form_taken__confined() { ret; }\n.func form_taken__persistent() { ret; }\n",
     .body = "add.u32 %v, %v, 1;\n",
     .refuse = "this name is taken, which the form would add"},
    {.name = "variable_taken",
     .module = ".global .b32 variable_taken__persistent, variable_taken__confined;\n",
     .body = "add.u32 %v, %v, 1;\n",
     .refuse = "this name is taken, which the form would add"},
    {.name = "our_variable_taken",
     .module = ".global .b32 our_variable_taken__persistent_gs_ours, our_variable_taken__confined_gs_ours;\n",
     .body = "add.u32 %v, %v, 1;\n",
     .refuse = "this name is taken, which the form would add"},
    {.name = "dynamic_arrays_of_two_alignments", /* both begin where the one with the larger alignment does */
     .module = ".extern .shared .align 1024 .b8 large_steps[];\n.extern .shared .align 4 .b32 small_steps[];\n",
     .body = "mov.u32 %r1, large_steps; mov.u32 %r2, small_steps; setp.ne.u32 %p0, %r1, %r2; @%p0 trap; bar.sync 0;\n",
     .shared = 64},
    {.name = "our_parameter_taken",
     .body = "{ .reg .b32 gs_job; }\n",
     .refuse = "names that begin with gs_ are reserved for reshaped kernels"},
    {.name = "copy_taken",
     .module = ".global .b32 copy_taken__persistent_gs_f3, copy_taken__confined_gs_f3;\n",
     .body = "add.u32 %v, %v, 1;\n",
     .refuse = "this name is taken, which the form would add"},
    {.name = "ours_in_braces",
     .body = "{ .reg .b32 ours_in_braces__persistent_gs_ours, ours_in_braces__confined_gs_ours; }\n",
     .refuse = "names that begin with ours_in_braces__confined_gs_ are reserved for reshaped kernels"},
    {.name = "label_of_ours",
     .body = "{ $gs_next: add.u32 %v, %v, 1; }\n",
     .refuse = "names that begin with gs_ are reserved for reshaped kernels"},
    {.name = "register_that_hides_a_special_one",
     .body = ".reg .b32 %smid, %clock; mov.u32 %smid, 1000; mov.u32 %clock, 5; add.u32 %v, %smid, %clock;\n",
     .refuse = "this name hides a special register that the form reads"},
    {.name = "variable_like_a_special_register",
     .body = "{ .shared .b32 %laneid; st.shared.u32 [%laneid], 4; }\n",
     .refuse = "this name hides a special register that the form reads"},
    {.name = "register_like_another_special_one",
     .body = ".reg .b32 %warpid; mov.u32 %warpid, 1000; add.u32 %v, %v, %warpid; bar.sync 0;\n"},
    {.name = "registers_in_braces_like_special_ones",
     .body = "{ .reg .b32 %smid, %clock, %tid; mov.u32 %smid, 1000; mov.u32 %clock, 5; mov.u32 %tid, 6;\n"
             "add.u32 %v, %smid, %clock; add.u32 %v, %v, %tid; }\nadd.u32 %v, %v, %b; bar.sync 0;\n"},
    {.name = "others_of_ours", .module = ".global .b32 gs_ours = 5;\n", .body = "add.u32 %v, %v, 1; bar.sync 0;\n"},
};

/* The frame. Thread %t of block %b stores %v in a place of its own. */
static const char frame_begin[] =
    "(.param .u64 out, .param .u64 in, .param .u32 n)\n{\n"
    "\t.reg .b16 %h<8>;\n\t.reg .b32 %r<16>, %v, %t, %b;\n\t.reg .b64 %d<8>, %o;\n\t.reg .pred %p<8>;\n"
    "\tmov.u32 %t, %tid.x;\n\tmov.u32 %r0, %ctaid.z;\n\tmov.u32 %r1, %nctaid.y;\n\tmov.u32 %r2, %ctaid.y;\n"
    "\tmad.lo.u32 %r0, %r0, %r1, %r2;\n\tmov.u32 %r1, %nctaid.x;\n\tmov.u32 %r2, %ctaid.x;\n"
    "\tmad.lo.u32 %b, %r0, %r1, %r2;\n\tmad.lo.u32 %v, %b, 64, %t;\n\tmul.wide.u32 %d0, %v, 4;\n"
    "\tld.param.u64 %o, [out];\n\tadd.u64 %o, %o, %d0;\n\tsetp.gt.u32 %p1, %t, 31;\n";
static const char frame_end[] = "\tst.global.u32 [%o], %v;\n\tret;\n}\n";

/* The symbol of a case; one of them has a long name. */
static void make_symbol(const struct text_case *it, char *into) {
    size_t length = strcmp(it->name, "long_name") == 0 ? 3000 : strlen(it->name);
    memset(into, 'n', length);
    memcpy(into, it->name, strlen(it->name));
    into[length] = '\0';
}

static formed kernels[GS_COUNT(cases)];
static gs_text ptx;

static gs_launch_file *make_launch(const struct text_case *it) {
    gs_text text = {0};
    gs_error error;
    gs_text_add(
        &text,
        "{\"schema\": \"gridsmith.launch/1\", \"grid\": [3, 2, 2], \"block\": [64, 1, 1], \"shared_bytes\": %u, "
        "\"arguments\": [{\"buffer\": \"int32\", \"count\": 1000, \"fill\": \"index\"}, "
        "{\"buffer\": \"int32\", \"count\": 1000, \"fill\": \"random\", \"seed\": 3}, {\"int32\": 400}]}",
        it->shared);
    gs_input *input = gs_input_memory(it->name, text.data, text.count, &error);
    gs_launch_file *launch = gs_launch_read(input, &error);
    if (!launch)
        fail_msg("%s: %s", it->name, error.message);
    gs_input_close(input);
    gs_text_free(&text);
    return launch;
}

static int make_all(void **state) {
    (void)state;
    gs_text_add(&ptx, ".version 8.4\n.target sm_90\n.address_size 64\n");
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        make_symbol(&cases[i], kernels[i].symbol);
        gs_text_add(&ptx, "%s.visible .entry %s%s%s%s", cases[i].module ? cases[i].module : "", kernels[i].symbol,
                    frame_begin, cases[i].body, frame_end);
        snprintf(kernels[i].name, sizeof kernels[i].name, "%s", cases[i].name);
        kernels[i].launch = make_launch(&cases[i]);
    }
    forms_make(kernels, sizeof kernels[0], GS_COUNT(cases), &ptx);
    return 0;
}

static int free_all(void **state) {
    (void)state;
    for (size_t i = 0; i < GS_COUNT(cases); i++)
        forms_free(&kernels[i]);
    gs_text_free(&ptx);
    return 0;
}

TEST(what_cannot_be_kept_is_refused) {
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        const char *found = kernels[i].refusal.code == GS_OK ? "" : kernels[i].refusal.message;
        if (strcmp(found, cases[i].refuse ? cases[i].refuse : "") != 0)
            fail_msg("%s is refused with \"%s\", not \"%s\"", cases[i].name, found,
                     cases[i].refuse ? cases[i].refuse : "");
    }
}

TEST(what_is_accepted_computes_the_same) {
    forms_check(kernels, sizeof kernels[0], GS_COUNT(cases), &ptx);
}

TEST(nearly_the_same_kernels_are_decided_as_before) {
    static const char *const inserted[] = {"bar.sync 0; ", "ret; ", "add.u32 %v, %v, 1; ", "mov.u32 %v, %ctaid.y; ",
                                           NULL};
    variations_open("text");
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_text text = {0};
        gs_text_add(&text, ".version 8.4\n.target sm_90\n.address_size 64\n%s.visible .entry %s%s",
                    cases[i].module ? cases[i].module : "", kernels[i].symbol, frame_begin);
        size_t from = text.count, to = from + strlen(cases[i].body);
        gs_text_add(&text, "%s%s", cases[i].body, frame_end);
        variations_scope scope = {.symbol = kernels[i].symbol, .guard = "@%p0 ", .value = "%v", .inserted = inserted};
        variations_expect(cases[i].name, text.data, text.data + from, text.data + to, &scope);
        gs_text_free(&text);
    }
    variations_close();
}

/* Launches a persistent form as if it were an original kernel, with any last parameter. */
static gs_code launch_with(gs_executor *executor, void *module, const char *form, gs_persistent_parameter job,
                           size_t bytes, uint32_t shared, gs_error *error) {
    const uint32_t grid[3] = {1, 1, 1}, block[3] = {64, 1, 1};
    static int32_t out[1000];
    uint64_t queue = 0;
    int32_t n = 400;
    gs_work work = {.seconds = 60};
    gs_work_buffer(&work, out, sizeof out);
    gs_work_buffer(&work, &queue, sizeof queue);
    gs_work_call(&work, form, grid, block, shared)->counts = -1;
    gs_work_pass_buffer(&work, 0);
    gs_work_pass_buffer(&work, 1);
    gs_work_pass(&work, &n, sizeof n);
    gs_work_pass(&work, &job, bytes);
    gs_code code = executor->ops->run(module, &work, error);
    gs_work_free(&work);
    return code;
}

/* With a single block in the grid, the queue is not asked. */
TEST(forms_trap_where_they_cannot_work) {
    enum { PLAIN_BYTES = offsetof(gs_persistent_parameter, shared) };
    static const char plain[] = "labels_on_one_line__persistent", dynamic[] = "end_of_dynamic_memory__persistent";
    static const struct {
        const char *form;
        gs_persistent_parameter job;
        uint32_t shared;
        bool traps;
    } launches[] = {
        {plain, {.grid_x = 1, .grid_y = 1, .grid_z = 1}, 0, false},
        {plain, {.grid_x = (1 << 30) + 1, .grid_y = 1, .grid_z = 1}, 0, true},
        {plain, {.grid_x = 1 << 16, .grid_y = 1 << 16, .grid_z = 1}, 0, true},
        {plain, {.grid_x = 1 << 16, .grid_y = 1, .grid_z = 1 << 15}, 0, true},
        {plain, {.grid_x = 1 << 16, .grid_y = 1 << 15, .grid_z = 1 << 2}, 0, true},
        {plain, {.grid_x = 0x80000000, .grid_y = 1 << 15, .grid_z = 1 << 15}, 0, true},
        {dynamic, {.grid_x = 1, .grid_y = 1, .grid_z = 1, .shared = 256}, 256 + GS_JOB_SHARED, false},
        {dynamic, {.grid_x = 1, .grid_y = 1, .grid_z = 1, .shared = 256}, 256, true},
        {dynamic, {.grid_x = 1, .grid_y = 1, .grid_z = 1}, 256, true},
        {dynamic, {.grid_x = 1, .grid_y = 1, .grid_z = 1}, 256 + GS_JOB_SHARED, true},
    };
    const char *names[] = {plain, dynamic};
    gs_build build = {.name = "text.ptx", .text = ptx.data, .size = ptx.count, .kernels = names, .kernel_count = 2};
    gs_error error;
    gs_executor *executor = gs_executor_open("host", &error);
    assert_non_null(executor);
    void *module = executor->ops->compile(executor, &build, &error);
    assert_non_null(module);
    for (size_t i = 0; i < GS_COUNT(launches); i++) {
        gs_code code = launch_with(executor, module, launches[i].form, launches[i].job,
                                   launches[i].form == plain ? PLAIN_BYTES : sizeof(gs_persistent_parameter),
                                   launches[i].shared, &error);
        assert_int_equal(code, launches[i].traps ? GS_E_KERNEL : GS_OK);
        assert_true(!launches[i].traps || strstr(error.message, "trapped"));
    }
    gs_executor_close(executor);
}

TEST_MAIN(make_all, free_all)
