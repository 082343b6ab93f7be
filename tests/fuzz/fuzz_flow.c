/*
 * fuzz_flow.c: any bytes as machine code.
 *
 * The first bytes are the launch, and the rounds of one loop; the others are instructions. What is walked is a tree:
 * each part that is opened is closed.
 */
#include "fuzz.h"

#include "kernels/flow/flow.h"

enum { HEAD = 8, MOST_CODE = 1 << 14, ARCHITECTURE = 90, MOST_OPEN = 200 };

static bool open_part(void *user, gs_flow_kind kind, uint32_t offset, uint32_t line, bool is_uniform, int64_t times,
                      gs_flow_source source) {
    (void)offset, (void)line, (void)is_uniform, (void)source;
    check_holds(times >= 0 && kind <= GS_FLOW_GROUPS, "a part has a kind and rounds");
    return ++*(int *)user < MOST_OPEN;
}

static bool close_part(void *user) {
    check_holds(--*(int *)user >= 0, "what is closed was open");
    return true;
}

static bool take_step(void *user, const gs_flow_step *step) {
    (void)user;
    check_holds(step->class_name && step->waits < 64, "an instruction has a class");
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < HEAD || size > MOST_CODE)
        return 0;
    unsigned char parameters[64];
    bool is_known[64];
    memset(parameters, data[0], sizeof parameters);
    memset(is_known, data[1] & 1, sizeof is_known);
    gs_sass_section section = {.name = ".text.k",
                               .bytes = {.data = (char *)data + HEAD, .count = size - HEAD},
                               .info = UINT32_MAX,
                               .has_bytes = true};
    gs_sass_image image = {.sections = {&section, 1, 1}};
    image.head[48] = ARCHITECTURE;
    gs_flow_launch launch = {{data[2], 1, 1}, {data[3], 1, 1}, parameters, is_known, sizeof parameters};
    gs_flow_rounds rounds = {.place = (gs_flow_place)(data[6] % 3), .at = data[4] * 16u, .rounds = data[5]};
    int open = 0;
    gs_flow_visitor visitor = {&open, open_part, close_part, take_step};
    gs_error error = {.code = GS_OK};
    char *file = NULL;
    gs_code code = gs_flow_walk(&image, "k", &launch, &rounds, 1, &visitor, &file, &error);
    check_holds(code != GS_OK || open == 0, "all parts are closed");
    check_holds(code == GS_OK || error.message[0], "a refusal has words");
    free(file);
    return 0;
}
