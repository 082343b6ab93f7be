/*
 * together.c: a group of tests in one program, for AddressSanitizer. tests/CMakeLists.txt lists them in together.inc,
 * and names the main function of each after its file.
 *
 *   together_GROUP [NAME...]    all of them, or those with these names: test_run, test_view...
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define TOGETHER(name) int name(void);
#include "together.inc"
#undef TOGETHER

static const struct {
    const char *name;
    int (*run)(void);
} tests[] = {
#define TOGETHER(name) {#name, name},
#include "together.inc"
};

static int is_wanted(int argc, char **argv, const char *name) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return 1;
    return argc == 1;
}

int main(int argc, char **argv) {
    int failed = 0;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (!is_wanted(argc, argv, tests[i].name))
            continue;
        fprintf(stderr, "== %s\n", tests[i].name);
        if (tests[i].run() != 0)
            fprintf(stderr, "%s failed\n", tests[i].name), failed++;
    }
    return failed > 0;
}
