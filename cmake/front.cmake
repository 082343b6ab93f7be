# front.cmake: the names and the jumps of the libcuda.so.1 of src/kernels/front, from the list of what the driver exports.
#
#   cmake -Dlist=driver_symbols.txt -Doutput=front_symbols.c -P front.cmake
file(STRINGS ${list} names REGEX "^[a-z]")
list(LENGTH names count)

set(jumps "")
set(texts "")
set(number 0)
foreach(name ${names})
    string(APPEND texts "    \"${name}\",\n")
    string(APPEND jumps "JUMP(\"${name}\", \"${number}\")\n")
    math(EXPR number "${number} + 1")
endforeach()

file(WRITE ${output} "/* front_symbols.c: made by front.cmake of driver_symbols.txt. */
#include \"kernels/front/front_table.h\"

const char *const gs_front_symbols[] = {
${texts}};
const size_t gs_front_symbol_count = ${count};
__attribute__((used)) void (*gs_front_table[${count}])(void);

#if defined(__x86_64__)
#    define ENTRY \"endbr64\\n jmp *gs_front_table+8*\"
#    define REST(number) \"(%rip)\\n\"
#    define KIND \"@function\"
#elif defined(__aarch64__)
#    define ENTRY \"hint #34\\n adrp x16, gs_front_table+8*\"
#    define REST(number) \"\\n ldr x16, [x16, #:lo12:gs_front_table+8*\" number \"]\\n br x16\\n\"
#    define KIND \"%function\"
#else
#    error \"there are no jumps for this machine\"
#endif

#define JUMP(name, number) \\
    __asm__(\".text\\n .p2align 4\\n .globl \" name \"\\n .type \" name \", \" KIND \"\\n\" name \":\\n \" ENTRY number REST(number) \\
            \".size \" name \", .-\" name \"\\n\");

${jumps}")
