/*
 * ptx_compare.c: kernels of PTX files on the CPU and on a GPU, with random buffers.
 *
 *   ptx_compare [-fx] [-w RECORDING | -r RECORDING] FILE...
 *   ptx_compare -a FOLDER FILE...
 *
 * Launches are guessed: each pointer gets a buffer of 1 MiB, filled by the types that the kernel loads through it, and
 * each integer a small number. Everything follows from the names of the kernels, so a run repeats. A guess counts if
 * the kernel stays inside of its buffers on the CPU, writes something, and writes the same with blocks and threads in
 * other orders. With GRIDSMITH_ON=cuda such a launch runs on a GPU, too, and the buffers are compared byte by byte.
 * Numbers of floating point that differ are counted in ulps, by the type of the stores of the kernel. On the GPU,
 * products and sums are not fused (ptx_unfused.h).
 *
 * With -f the persistent and the confined form run, too, with few worker blocks and with stops, and must give the same
 * bytes: on the CPU those of the CPU, and on a GPU those of the original there.
 *
 * The CPU and the GPU may be on different machines. -w writes what the launches that count leave in their buffers on
 * the CPU (ptx_recording.h). -r compares those launches with a GPU, without using the CPU: no C compiler is needed
 * there. With -r, "digest" lines say what the GPU computed, and "apart" lines show numbers that differ (at most
 * GRIDSMITH_SHOWN of a launch).
 *
 * With -x only kernels with approximate instructions are tried, with exact ones in their place (ptx_exact.h). This
 * shows whether these instructions are the only reason for a difference.
 *
 * -a runs nothing: it writes each file with both forms of all its kernels to a folder, for an assembler
 * (scripts/ptx_assemble.sh).
 *
 * GRIDSMITH_SKIPPED names a file with kernels to skip, a symbol in each line.
 *
 * Prints a line for each kernel: "same", "ulps N", "differs", "ready" (without a GPU), or "left out" and the reason.
 * "approximate" counts kernels with instructions that are approximate by specification, "matrix" those with sums of
 * products whose order the manual leaves open. scripts/ptx_compare.sh runs it on a folder and counts.
 */
#include "kernels/cpu/cpu.h"
#include "ptx_exact.h"
#include "ptx_recording.h"
#include "ptx_unfused.h"
#include "ulps.h"

#include <stdlib.h>
#include <unistd.h>

enum { MOST_BYTES = 64 << 20, BUFFER_BYTES = 1 << 20, MOST_PARAMETERS = 64, GUESSES = 14, WANTED = 2, SECONDS = 5 };

typedef enum element { INT8, INT16, INT32, INT64, HALF, BFLOAT, SINGLE, DOUBLE } element;

static const struct {
    uint32_t bytes;
    int fraction_bits; /* 0: an integer */
} elements[] = {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {2, 10}, {2, 7}, {4, 23}, {8, 52}};

struct parameter {
    uint32_t bytes;
    uint8_t type; /* gs_ptx_type */
    bool is_pointer;
    element content; /* of what it points to */
    bool is_known;   /* the content */
};

struct kernel {
    const gs_ptx_module *module;
    const gs_ptx_function *function;
    uint32_t number;
    char name[GS_PTX_SYMBOL_MOST];
    struct parameter parameters[MOST_PARAMETERS];
    uint32_t axes;       /* of the block, that it asks for: 1 to 3 */
    bool reads_block[3]; /* the coordinates of the block that it asks for */
    bool has_halves, has_bfloats, is_approximate, has_matrices, knows_place;
    bool needs_warps;      /* lanes exchange values: the value of a missing lane is undefined */
    uint32_t shared_bytes; /* static */
    bool has_dynamic;
    bool is_made[GS_FORMS];     /* with -f: the forms that are not refused, */
    gs_ptx_form made[GS_FORMS]; /* and how they were made */
};

enum { MOST_BLOCKS = 1024 };

struct outcome {
    unsigned char *buffers[MOST_PARAMETERS];
};

/* ---- the parameters of a kernel ---- */

static gs_ptx_type last_type(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    char word[200], *dot;
    gs_ptx_token_text(module, statement->word, word, sizeof word);
    while ((dot = strrchr(word, '.'))) {
        for (gs_ptx_type type = GS_PTX_B8; type <= GS_PTX_F64; type++)
            if (strcmp(dot + 1, gs_ptx_type_name(type)) == 0)
                return type;
        *dot = 0;
    }
    return GS_PTX_NO_TYPE;
}

static element element_of(const struct kernel *kernel, gs_ptx_type type) {
    switch (type) {
    case GS_PTX_F32:
        return SINGLE;
    case GS_PTX_F64:
        return DOUBLE;
    case GS_PTX_F16:
    case GS_PTX_F16X2:
        return HALF;
    case GS_PTX_BF16:
    case GS_PTX_BF16X2:
        return BFLOAT;
    case GS_PTX_B16:
    case GS_PTX_U16:
        return kernel->has_halves ? HALF : kernel->has_bfloats ? BFLOAT : INT16;
    default:
        break;
    }
    uint32_t bytes = gs_ptx_type_bytes(type);
    return bytes == 1 ? INT8 : bytes == 2 ? INT16 : bytes == 8 ? INT64 : INT32;
}

static const gs_ptx_operand *operand_at(const struct kernel *kernel, const gs_ptx_statement *statement, uint32_t i) {
    return &kernel->module->operands.data[statement->operands + i];
}

/* The parameters that flow into the registers of an operand, as bits. */
static uint64_t sources_of(const struct kernel *kernel, const gs_ptx_operand *operand, const uint64_t *flows) {
    uint64_t sources = 0;
    if (operand->kind == GS_PTX_REGISTER)
        return flows[operand->value];
    for (uint32_t i = 0; i < operand->count && operand->kind != GS_PTX_OTHER; i++)
        sources |= sources_of(kernel, &kernel->module->operands.data[operand->children + i], flows);
    return sources;
}

/* The parameter that ld.param reads, as a bit. */
static uint64_t parameter_read(const struct kernel *kernel, const gs_ptx_operand *address) {
    if (address->kind != GS_PTX_ADDRESS || !address->count)
        return 0;
    const gs_ptx_operand *base = &kernel->module->operands.data[address->children];
    uint32_t index = base->value - kernel->function->parameters;
    bool is_one =
        base->kind == GS_PTX_SYMBOL && base->value != GS_PTX_NONE && index < kernel->function->parameter_count;
    return is_one ? (uint64_t)1 << index : 0;
}

static void set_pointers(struct kernel *kernel, uint64_t which) {
    for (uint32_t i = 0; i < kernel->function->parameter_count; i++)
        if (which >> i & 1 && kernel->parameters[i].bytes == 8)
            kernel->parameters[i].is_pointer = true;
}

static void set_content(struct kernel *kernel, uint64_t which, element content) {
    for (uint32_t i = 0; i < kernel->function->parameter_count; i++) {
        struct parameter *parameter = &kernel->parameters[i];
        if (which >> i & 1 && (!parameter->is_known || content > parameter->content)) {
            parameter->is_known = true;
            parameter->content = content;
        }
    }
}

/* An operand of an access to memory. A single parameter that flows into an address is a pointer. */
static void see_address(struct kernel *kernel, const gs_ptx_statement *statement, const gs_ptx_operand *operand,
                        const uint64_t *flows) {
    if (operand->kind != GS_PTX_ADDRESS)
        return;
    uint64_t sources = sources_of(kernel, operand, flows);
    if (sources && !(sources & (sources - 1)))
        set_pointers(kernel, sources);
    set_content(kernel, sources, element_of(kernel, last_type(kernel->module, statement)));
}

/* One step: adds the parameters that flow into the destination. True: something changed. */
static bool follow(struct kernel *kernel, const gs_ptx_statement *statement, uint64_t *flows) {
    const gs_ptx_module *module = kernel->module;
    uint64_t sources = 0;
    if (statement->count < 2)
        return false;
    const gs_ptx_operand *first = operand_at(kernel, statement, 0), *second = operand_at(kernel, statement, 1);
    bool is_memory =
        statement->opcode == GS_PTX_LOAD || statement->opcode == GS_PTX_STORE || statement->opcode == GS_PTX_ATOMIC;
    if (statement->opcode == GS_PTX_LOAD && gs_ptx_has(module, statement, "param"))
        sources = parameter_read(kernel, second);
    else if (statement->opcode == GS_PTX_STORE && gs_ptx_has(module, statement, "param"))
        set_pointers(kernel, sources_of(kernel, second, flows)); /* the argument of a call */
    else if (is_memory && !gs_ptx_has(module, statement, "shared"))
        for (uint32_t i = 0; i < statement->count; i++)
            see_address(kernel, statement, operand_at(kernel, statement, i), flows);
    if (statement->opcode == GS_PTX_COMPUTE)
        for (uint32_t i = 1; i < statement->count; i++)
            sources |= sources_of(kernel, operand_at(kernel, statement, i), flows);
    char word[60];
    gs_ptx_token_text(module, statement->word, word, sizeof word);
    if (strncmp(word, "cvta", 4) == 0)
        set_pointers(kernel, sources);
    if (first->kind != GS_PTX_REGISTER ||
        gs_ptx_type_bytes(gs_ptx_register_type(module, kernel->number, first->value)) != 8 ||
        (flows[first->value] | sources) == flows[first->value])
        return false;
    flows[first->value] |= sources;
    return true;
}

static void follow_parameters(struct kernel *kernel) {
    const gs_ptx_function *function = kernel->function;
    uint64_t *flows = calloc(function->register_count + 1, sizeof *flows);
    bool is_new = flows != NULL;
    while (is_new) {
        is_new = false;
        for (uint32_t i = 0; i < function->statement_count; i++) {
            const gs_ptx_statement *statement = &kernel->module->statements.data[function->statements + i];
            if (statement->kind == GS_PTX_INSTRUCTION)
                is_new = follow(kernel, statement, flows) || is_new;
        }
    }
    free(flows);
}

static void read_special(struct kernel *kernel, const gs_ptx_operand *operand) {
    static const uint8_t places[] = {GS_PTX_SMID, GS_PTX_NSMID, GS_PTX_WARPID, GS_PTX_GRIDID, GS_PTX_TOTAL_SMEM_SIZE};
    for (size_t i = 0; i < GS_COUNT(places); i++)
        kernel->knows_place = kernel->knows_place || operand->value == places[i];
    if (operand->value == GS_PTX_CTAID && operand->part >= 'x' && operand->part <= 'z')
        kernel->reads_block[operand->part - 'x'] = true;
    if (operand->value == GS_PTX_TID && operand->part == 'y' && kernel->axes < 2)
        kernel->axes = 2;
    if (operand->value == GS_PTX_TID && operand->part == 'z')
        kernel->axes = 3;
}

/* Finds the kinds of instructions of the module. Functions count for all of its kernels. */
static void read_instructions(struct kernel *kernel, const gs_ptx_function *function) {
    const gs_ptx_module *module = kernel->module;
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = &module->statements.data[function->statements + i];
        if (statement->kind != GS_PTX_INSTRUCTION)
            continue;
        kernel->is_approximate =
            kernel->is_approximate || gs_ptx_has(module, statement, "approx") || gs_ptx_has(module, statement, "full");
        kernel->has_matrices = kernel->has_matrices || statement->opcode == GS_PTX_MATRIX;
        kernel->needs_warps =
            kernel->needs_warps || statement->opcode == GS_PTX_MATRIX || statement->opcode == GS_PTX_SHUFFLE;
        kernel->has_halves =
            kernel->has_halves || gs_ptx_has(module, statement, "f16") || gs_ptx_has(module, statement, "f16x2");
        kernel->has_bfloats =
            kernel->has_bfloats || gs_ptx_has(module, statement, "bf16") || gs_ptx_has(module, statement, "bf16x2");
        for (uint32_t k = 0; k < statement->count; k++)
            if (operand_at(kernel, statement, k)->kind == GS_PTX_SPECIAL)
                read_special(kernel, operand_at(kernel, statement, k));
    }
}

static bool read_kernel(struct kernel *kernel, const gs_ptx_module *module, uint32_t number) {
    const gs_ptx_function *function = &module->functions.data[number];
    *kernel = (struct kernel){.module = module, .function = function, .number = number, .axes = 1};
    gs_ptx_token_text(module, function->name, kernel->name, sizeof kernel->name);
    if (function->parameter_count > MOST_PARAMETERS)
        return false;
    for (uint32_t i = 0; i < function->parameter_count; i++) {
        const gs_ptx_variable *variable = &module->variables.data[function->parameters + i];
        kernel->parameters[i] = (struct parameter){.bytes = (uint32_t)variable->bytes,
                                                   .type = variable->is_array ? GS_PTX_B8 : variable->type,
                                                   .content = SINGLE};
    }
    for (size_t i = 0; i < module->functions.count; i++)
        if (!module->functions.data[i].is_entry || i == number)
            read_instructions(kernel, &module->functions.data[i]);
    for (size_t i = 0; i < module->variables.count; i++) {
        const gs_ptx_variable *variable = &module->variables.data[i];
        if (variable->space == GS_PTX_SHARED && (variable->function == GS_PTX_NONE || variable->function == number)) {
            kernel->has_dynamic = kernel->has_dynamic || variable->has_no_size;
            kernel->shared_bytes += (uint32_t)variable->bytes;
        }
    }
    follow_parameters(kernel);
    return true;
}

/* ---- guesses ---- */

/* `n`: the integers among the arguments; 0: each another one. The sizes of the block are for kernels that ask for one,
   two and three coordinates of a thread. */
static const struct guess {
    uint32_t n, grid, blocks[3][3];
    bool is_signed;
} guesses[GUESSES] = {
    {64, 4, {{64, 1, 1}, {16, 16, 1}, {8, 8, 4}}, false},    {256, 4, {{256, 1, 1}, {32, 8, 1}, {16, 4, 4}}, true},
    {16, 3, {{128, 1, 1}, {8, 8, 1}, {4, 4, 4}}, false},     {32, 2, {{32, 1, 1}, {32, 4, 1}, {32, 2, 2}}, true},
    {128, 8, {{128, 1, 1}, {32, 32, 1}, {8, 8, 8}}, false},  {8, 2, {{256, 1, 1}, {16, 8, 1}, {2, 2, 2}}, true},
    {0, 4, {{64, 1, 1}, {16, 16, 1}, {8, 8, 4}}, false},     {0, 2, {{32, 1, 1}, {8, 8, 1}, {4, 4, 4}}, true},
    {1000, 2, {{512, 1, 1}, {32, 16, 1}, {8, 8, 8}}, false}, {4, 1, {{32, 1, 1}, {4, 4, 1}, {4, 4, 4}}, false},
    {2, 1, {{16, 1, 1}, {2, 2, 1}, {2, 2, 2}}, true},        {1, 2, {{64, 1, 1}, {16, 16, 1}, {4, 4, 4}}, false},
    {0, 1, {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, false},        {512, 1, {{512, 1, 1}, {16, 16, 1}, {8, 8, 4}}, true},
};

static uint64_t hash_of(const char *name, uint64_t number) {
    uint64_t hash = 0xcbf29ce484222325u ^ number;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash;
}

static void put_real(element type, double value, void *at) {
    float single = (float)value;
    uint32_t bits;
    uint16_t half;
    memcpy(&bits, &single, sizeof bits);
    if (type == DOUBLE)
        memcpy(at, &value, sizeof value);
    else if (type == SINGLE)
        memcpy(at, &single, sizeof single);
    else {
        int exponent = (int)(bits >> 23 & 255) - 127;
        half = type == BFLOAT ? (uint16_t)(bits >> 16)
               : exponent < -14
                   ? 0
                   : (uint16_t)((bits >> 16 & 0x8000) | (uint32_t)(exponent + 15) << 10 | (bits >> 13 & 1023));
        memcpy(at, &half, sizeof half);
    }
}

static void fill(unsigned char *buffer, element type, const struct guess *guess, gs_random *random) {
    uint32_t bytes = elements[type].bytes;
    for (uint32_t i = 0; i < BUFFER_BYTES / bytes; i++) {
        uint64_t drawn = gs_random_from(random, 0, 1 << 20);
        double real = (double)drawn / (1 << 20) + 0.25;
        uint64_t integer = drawn % (guess->n ? guess->n : 16);
        if (elements[type].fraction_bits)
            put_real(type, guess->is_signed ? 2 * real - 1.5 : real, buffer + (size_t)i * bytes);
        else
            memcpy(buffer + (size_t)i * bytes, &integer, bytes); /* little endian */
    }
}

/* The value of a parameter that is not a pointer. */
static void pass_value(gs_work *work, const struct parameter *parameter, const struct guess *guess, gs_random *random) {
    unsigned char value[GS_JOB_VALUE] = {0};
    static const uint32_t small[] = {1, 2, 4, 8, 16, 32, 64, 3};
    uint64_t integer = guess->n ? guess->n : small[gs_random_from(random, 0, GS_COUNT(small) - 1)];
    double real = (double)gs_random_from(random, 1, 100) / 64;
    if (parameter->type == GS_PTX_F32)
        put_real(SINGLE, real, value);
    else if (parameter->type == GS_PTX_F64)
        put_real(DOUBLE, real, value);
    else if (parameter->bytes <= 8)
        memcpy(value, &integer, parameter->bytes);
    else
        for (uint32_t i = 0; i + 4 <= parameter->bytes && i + 4 <= sizeof value; i += 4)
            memcpy(value + i, &integer, 4);
    gs_work_pass(work, value, parameter->bytes);
}

static void choose_shape(const struct kernel *kernel, const struct guess *guess, uint32_t grid[3], uint32_t block[3]) {
    const gs_ptx_limits *limits = &kernel->function->limits;
    uint32_t most = limits->max_threads[0] ? limits->max_threads[0] : 1024;
    for (int i = 1; i < 3; i++)
        most *= limits->max_threads[i] ? limits->max_threads[i] : 1;
    memcpy(block, guess->blocks[kernel->axes - 1], 3 * sizeof *block);
    while (block[0] * block[1] * block[2] > most)
        block[block[2] > 1 ? 2 : block[1] > 1 ? 1 : 0] /= 2;
    if (limits->required_threads[0])
        for (int i = 0; i < 3; i++)
            block[i] = limits->required_threads[i] ? limits->required_threads[i] : 1;
    else if (kernel->needs_warps && block[0] * block[1] * block[2] % 32)
        block[0] = 32;
    grid[0] = kernel->reads_block[0] ? guess->grid : 1;
    grid[1] = kernel->reads_block[1] ? guess->grid / 2 + 1 : 1;
    grid[2] = kernel->reads_block[2] ? 2 : 1;
}

static bool make_outcome(struct outcome *outcome, const struct kernel *kernel, const struct guess *guess,
                         uint64_t seed) {
    for (uint32_t i = 0; i < kernel->function->parameter_count; i++) {
        gs_random random = gs_random_at(seed, i);
        if (!kernel->parameters[i].is_pointer)
            continue;
        if (!outcome->buffers[i] && !(outcome->buffers[i] = malloc(BUFFER_BYTES)))
            return false;
        fill(outcome->buffers[i], kernel->parameters[i].content, guess, &random);
    }
    return true;
}

/* A launch that is played: a kernel in a form, a guess, and the seed of its data. */
struct launch {
    const struct kernel *kernel;
    const struct guess *guess;
    uint64_t seed;
    enum gs_form form;
};

/* A form has few worker blocks; each block must run once. */
static void add_form(gs_work *work, gs_job_call *call, const struct launch *launch, uint32_t *counts) {
    static const char *const suffixes[] = {"", "__persistent", "__confined"};
    strncat(call->kernel, suffixes[launch->form], sizeof call->kernel - strlen(call->kernel) - 1);
    call->form = (uint32_t)launch->form;
    call->counts = gs_work_buffer(work, counts, MOST_BLOCKS * sizeof *counts);
    call->workers = 1 + (uint32_t)(launch->seed % 4);
    call->stops = launch->form == GS_FORM_CONFINED ? 2 : 0;
    call->gives_first = !launch->kernel->made[launch->form].needs_queue;
}

static gs_code check_marks(const uint32_t grid[3], const uint32_t *counts, gs_error *error) {
    for (uint32_t i = 0; i < grid[0] * grid[1] * grid[2]; i++)
        if (counts[i] != 1)
            return gs_fail(error, GS_E_KERNEL, "block %u ran %u times", i, counts[i]);
    return GS_OK;
}

static gs_code play(gs_executor *executor, void *module, const struct launch *launch, uint64_t order,
                    struct outcome *outcome, gs_error *error) {
    const struct kernel *kernel = launch->kernel;
    const struct guess *guess = launch->guess;
    uint64_t seed = launch->seed;
    uint32_t counts[MOST_BLOCKS] = {0};
    gs_work work = {
        .seconds = SECONDS, .seed = order, .shuffled = order % 2, .backwards = order % 3 == 2, .threads = 2};
    uint32_t grid[3], block[3], dynamic = kernel->shared_bytes < 49152 ? 49152 - kernel->shared_bytes : 0;
    gs_random random = gs_random_at(seed, 1000);
    if (!make_outcome(outcome, kernel, guess, seed))
        return gs_fail_memory(error);
    choose_shape(kernel, guess, grid, block);
    int32_t numbers[MOST_PARAMETERS];
    for (uint32_t i = 0; i < kernel->function->parameter_count; i++)
        numbers[i] = kernel->parameters[i].is_pointer ? gs_work_buffer(&work, outcome->buffers[i], BUFFER_BYTES) : -1;
    gs_job_call *call =
        gs_work_call(&work, kernel->name, grid, block, kernel->has_dynamic ? dynamic < 32768 ? dynamic : 32768 : 0);
    if (launch->form != GS_FORM_ORIGINAL)
        add_form(&work, call, launch, counts);
    for (uint32_t i = 0; i < kernel->function->parameter_count; i++)
        if (numbers[i] >= 0)
            gs_work_pass_buffer(&work, numbers[i]);
        else
            pass_value(&work, &kernel->parameters[i], guess, &random);
    gs_code code = executor->ops->run(module, &work, error);
    gs_work_free(&work);
    return code == GS_OK && launch->form != GS_FORM_ORIGINAL ? check_marks(grid, counts, error) : code;
}

/* ---- comparing ---- */

struct difference {
    uint32_t parameter, index; /* the first */
    uint64_t bytes;            /* that differ */
    uint64_t ulps;             /* the most; UINT64_MAX: not only floating point differs */
    uint64_t mine, theirs;
};

static struct difference compare(const struct kernel *kernel, const struct outcome *mine,
                                 const struct outcome *theirs) {
    struct difference difference = {0};
    for (uint32_t p = 0; p < kernel->function->parameter_count; p++) {
        element type = kernel->parameters[p].content;
        uint32_t bytes = elements[type].bytes;
        if (!kernel->parameters[p].is_pointer)
            continue;
        for (uint32_t i = 0; i < BUFFER_BYTES; i += bytes) {
            const unsigned char *a = mine->buffers[p] + i, *b = theirs->buffers[p] + i;
            if (memcmp(a, b, bytes) == 0)
                continue;
            if (!difference.bytes) {
                difference.parameter = p;
                difference.index = i / bytes;
                memcpy(&difference.mine, a, bytes);
                memcpy(&difference.theirs, b, bytes);
            }
            difference.bytes += bytes;
            uint64_t ulps = ulps_apart(bytes, elements[type].fraction_bits, a, b);
            if (ulps > difference.ulps)
                difference.ulps = ulps;
        }
    }
    return difference;
}

/* ---- kernels ---- */

static struct {
    gs_executor *cpu, *gpu;
    void *on_gpu;          /* the module of the kernel */
    const gs_build *forms; /* with -f: the module with its forms */
    struct outcome before, first, other, original;
    const char *file;
    bool has_forms, is_exact;   /* -f, -x */
    const char *folder;         /* -a */
    FILE *written;              /* -w */
    struct recording recording; /* -r */
    bool has_recording;
    uint64_t shown; /* GRIDSMITH_SHOWN */
} all;

static void say(const struct kernel *kernel, const char *verdict, const char *words) {
    printf("%s %s %s%s%s%s%s\n", verdict, all.file, kernel->name, words[0] ? " " : "", words,
           kernel->is_approximate ? " (approximate)" : "", kernel->has_matrices ? " (matrix)" : "");
    fflush(stdout);
}

/* Whether the CPU computes the same in other orders. */
static bool is_settled(void *module, const struct launch *launch) {
    gs_error error;
    static const uint64_t orders[] = {1, 2, 3, 5, 7, 9}; /* odd: random; 2: threads backwards */
    for (size_t i = 0; i < GS_COUNT(orders); i++)
        if (play(all.cpu, module, launch, orders[i], &all.other, &error) != GS_OK ||
            compare(launch->kernel, &all.first, &all.other).bytes)
            return false;
    return true;
}

/* Reports that two outcomes differ. */
static void say_difference(const struct launch *launch, const struct difference *found, const char *one,
                           const char *other) {
    char words[500];
    snprintf(words, sizeof words, "guess %d: %llu bytes, first parameter %u element %u: %s 0x%llx, %s 0x%llx",
             (int)(launch->guess - guesses), (unsigned long long)found->bytes, found->parameter, found->index, one,
             (unsigned long long)found->mine, other, (unsigned long long)found->theirs);
    say(launch->kernel, "differs", words);
}

static void say_failure(const struct launch *launch, const char *where, const gs_error *error) {
    char words[500];
    snprintf(words, sizeof words, "guess %d: %s fails: %.300s", (int)(launch->guess - guesses), where, error->message);
    say(launch->kernel, "differs", words);
}

/* Shows numbers that differ, and how far all are apart at most when measured in ulps of the largest of the buffer. */
static void show_apart(const struct launch *launch) {
    const struct kernel *kernel = launch->kernel;
    uint64_t shown = 0;
    for (uint32_t p = 0; p < kernel->function->parameter_count; p++) {
        element type = kernel->parameters[p].content;
        uint32_t bytes = elements[type].bytes;
        for (uint32_t i = 0; kernel->parameters[p].is_pointer && i < BUFFER_BYTES && shown < all.shown; i += bytes) {
            const unsigned char *a = all.first.buffers[p] + i, *b = all.other.buffers[p] + i;
            uint64_t mine = 0, theirs = 0, ulps = ulps_apart(bytes, elements[type].fraction_bits, a, b);
            if (!ulps)
                continue;
            memcpy(&mine, a, bytes);
            memcpy(&theirs, b, bytes);
            printf("apart %s %s guess %d parameter %u element %u: CPU 0x%llx, GPU 0x%llx, %lld ulps\n", all.file,
                   kernel->name, (int)(launch->guess - guesses), p, i / bytes, (unsigned long long)mine,
                   (unsigned long long)theirs, (long long)ulps);
            shown++;
        }
    }
}

static void show_digest(const struct launch *launch) {
    const struct kernel *kernel = launch->kernel;
    uint64_t hash = 0;
    for (uint32_t p = 0; p < kernel->function->parameter_count; p++)
        if (kernel->parameters[p].is_pointer)
            hash = gs_hash(hash, all.other.buffers[p], BUFFER_BYTES);
    printf("digest %s %s %d 0x%llx\n", all.file, kernel->name, (int)(launch->guess - guesses),
           (unsigned long long)hash);
}

static bool reopen_gpu(void) {
    gs_error error;
    if (all.gpu)
        gs_executor_close(all.gpu);
    all.gpu = gs_executor_open(getenv("GRIDSMITH_ON"), &error);
    if (!all.gpu)
        printf("no GPU: %s\n", error.message);
    return all.gpu != NULL;
}

/* The module on the GPU. It is compiled once for a kernel, or, if it has variables, for each launch: so they have their
   first values. */
static void *module_on_gpu(const gs_build *build, const struct kernel *kernel, gs_error *error) {
    bool has_variables = false;
    for (size_t i = 0; i < kernel->module->variables.count; i++)
        has_variables = has_variables || kernel->module->variables.data[i].space == GS_PTX_GLOBAL;
    if (!all.on_gpu || has_variables)
        all.on_gpu = all.gpu->ops->compile(all.gpu, build, error);
    return all.on_gpu;
}

/* Compares one launch. False: it differs. */
static bool try_on_gpu(const gs_build *build, const struct launch *launch, uint64_t *ulps) {
    gs_error error = {.message = ""};
    void *module = module_on_gpu(build, launch->kernel, &error);
    if (!module || play(all.gpu, module, launch, 0, &all.other, &error) != GS_OK) {
        say_failure(launch, "the GPU", &error);
        all.on_gpu = NULL;
        reopen_gpu();
        return false;
    }
    struct difference found = compare(launch->kernel, &all.first, &all.other);
    show_apart(launch);
    if (all.has_recording)
        show_digest(launch);
    if (found.bytes && found.ulps == UINT64_MAX) {
        say_difference(launch, &found, "CPU", "GPU");
        return false;
    }
    *ulps = found.ulps > *ulps ? found.ulps : *ulps;
    return true;
}

/* Whether the forms of a kernel compute on an executor what `original` has. */
static bool try_forms(gs_executor *executor, void *module, const struct launch *launch,
                      const struct outcome *original) {
    uint32_t grid[3], block[3];
    choose_shape(launch->kernel, launch->guess, grid, block);
    for (int form = GS_FORM_PERSISTENT; form <= GS_FORM_CONFINED; form++) {
        const struct kernel *kernel = launch->kernel;
        struct launch formed = *launch;
        gs_error error;
        if (!kernel->is_made[form] || gs_ptx_form_misfit(&kernel->made[form], grid, block))
            continue;
        formed.form = (enum gs_form)form;
        if (play(executor, module, &formed, 1, &all.other, &error) != GS_OK) {
            say_failure(launch, gs_form_name(formed.form), &error);
            return false;
        }
        struct difference found = compare(kernel, original, &all.other);
        if (found.bytes) {
            say_difference(launch, &found, "original", gs_form_name(formed.form));
            return false;
        }
    }
    return true;
}

/* The same on the GPU, beside the original of the same module. */
static bool try_forms_on_gpu(const struct launch *launch) {
    gs_error error = {.message = ""};
    void *module = all.gpu->ops->compile(all.gpu, all.forms, &error);
    if (module && play(all.gpu, module, launch, 0, &all.original, &error) == GS_OK)
        return try_forms(all.gpu, module, launch, &all.original);
    say_failure(launch, "the GPU", &error);
    return false;
}

static void record(const struct launch *launch) {
    const struct kernel *kernel = launch->kernel;
    recording_begin(all.written, &(struct recording_key){all.file, kernel->name, (int)(launch->guess - guesses)});
    for (uint32_t p = 0; p < kernel->function->parameter_count; p++)
        if (kernel->parameters[p].is_pointer)
            recording_put(all.written, p, all.before.buffers[p], all.first.buffers[p], BUFFER_BYTES);
    fflush(all.written);
}

static void say_verdict(const struct kernel *kernel, int counted, uint64_t changed, uint64_t ulps) {
    char words[100], verdict[40];
    snprintf(words, sizeof words, "launches %d bytes %llu", counted, (unsigned long long)changed);
    snprintf(verdict, sizeof verdict,
             ulps                       ? "ulps %llu"
             : all.gpu || all.has_forms ? "same"
                                        : "ready",
             (unsigned long long)ulps);
    say(kernel, verdict, words);
}

/* Compares the launches of a recording with the GPU. */
static void try_recorded(const gs_build *build, const struct kernel *kernel) {
    int counted = 0;
    uint64_t ulps = 0, changed = 0;
    for (int i = 0; i < GUESSES; i++) {
        struct launch launch = {.kernel = kernel, .guess = &guesses[i], .seed = hash_of(kernel->name, (uint64_t)i)};
        const char *lines = recording_find(&all.recording, &(struct recording_key){all.file, kernel->name, i});
        if (!lines)
            continue;
        make_outcome(&all.before, kernel, &guesses[i], launch.seed);
        make_outcome(&all.first, kernel, &guesses[i], launch.seed);
        for (uint32_t p = 0; p < kernel->function->parameter_count; p++)
            if (kernel->parameters[p].is_pointer && !recording_apply(lines, p, all.first.buffers[p], BUFFER_BYTES)) {
                say(kernel, "differs", "the recording is damaged");
                return;
            }
        changed += compare(kernel, &all.before, &all.first).bytes;
        counted++;
        if (!try_on_gpu(build, &launch, &ulps) || (all.has_forms && !try_forms_on_gpu(&launch)))
            return;
    }
    if (counted)
        say_verdict(kernel, counted, changed, ulps);
}

/* Tries guesses, and compares those that count. */
static void try_guesses(void *module, const gs_build *build, const struct kernel *kernel) {
    gs_error error = {.message = "no guess"};
    int counted = 0, orders = 0, empty = 0, late = 0;
    uint64_t ulps = 0, changed = 0;
    for (int i = 0; i < GUESSES && counted < WANTED && late < 2; i++) {
        struct launch launch = {.kernel = kernel, .guess = &guesses[i], .seed = hash_of(kernel->name, (uint64_t)i)};
        if (play(all.cpu, module, &launch, 0, &all.first, &error) != GS_OK) {
            late += strncmp(error.message, "not done", 8) == 0;
            continue;
        }
        make_outcome(&all.before, kernel, &guesses[i], launch.seed);
        uint64_t written = compare(kernel, &all.before, &all.first).bytes;
        bool is_settled_here = written && is_settled(module, &launch);
        empty += !written;
        orders += written && !is_settled_here;
        if (!is_settled_here)
            continue;
        changed += written;
        counted++;
        if (all.written)
            record(&launch);
        if ((all.gpu && !try_on_gpu(build, &launch, &ulps)) || !try_forms(all.cpu, module, &launch, &all.first))
            return;
    }
    char words[600];
    if (counted) {
        say_verdict(kernel, counted, changed, ulps);
    } else {
        snprintf(words, sizeof words, "%s", orders ? "depends on the order" : empty ? "writes nothing" : error.message);
        say(kernel, orders ? "left out: order:" : empty ? "left out: empty:" : "left out: bounds:", words);
    }
}

/* The text of the module, followed by the forms of the kernel. */
static gs_text add_forms(struct kernel *kernel) {
    gs_text text = {0};
    gs_text_put(&text, kernel->module->text, kernel->module->size);
    for (int form = GS_FORM_PERSISTENT; form <= GS_FORM_CONFINED && all.has_forms; form++) {
        gs_ptx_options options = {.form = (enum gs_form)form, .counts_blocks = true};
        gs_error error;
        kernel->is_made[form] =
            gs_ptx_reshape(kernel->module, kernel->number, &options, &text, &kernel->made[form], &error) == GS_OK;
    }
    return text;
}

static void compile_and_try(struct kernel *kernel) {
    char persistent[GS_PTX_SYMBOL_MOST + 20], confined[GS_PTX_SYMBOL_MOST + 20];
    gs_error error = {.message = ""};
    gs_text text = add_forms(kernel);
    const gs_ptx_module *ptx = kernel->module;
    const char *names[3] = {kernel->name};
    size_t count = 1;
    gs_ptx_form_symbol(ptx, kernel->number, GS_FORM_PERSISTENT, persistent, sizeof persistent);
    gs_ptx_form_symbol(ptx, kernel->number, GS_FORM_CONFINED, confined, sizeof confined);
    if (kernel->is_made[GS_FORM_PERSISTENT])
        names[count++] = persistent;
    if (kernel->is_made[GS_FORM_CONFINED])
        names[count++] = confined;
    gs_build with_forms = {
        .name = all.file, .text = text.data, .size = text.count, .kernels = names, .kernel_count = count};
    gs_text alone = ptx_unfused(ptx, kernel->number);
    all.on_gpu = NULL;
    all.forms = &with_forms;
    gs_build build = {.name = all.file, .text = alone.data, .size = alone.count, .kernels = names, .kernel_count = 1};
    gs_module *module = all.has_recording ? NULL : all.cpu->ops->compile(all.cpu, &with_forms, &error);
    if (all.has_recording)
        try_recorded(&build, kernel);
    else if (!module || gs_module_wait(module, &error) != GS_OK)
        say(kernel, "left out: instruction:", error.message);
    else
        try_guesses(module, &build, kernel);
    gs_text_free(&alone);
    gs_text_free(&text);
}

static bool is_skipped(const char *kernel) {
    const char *path = getenv("GRIDSMITH_SKIPPED");
    char line[GS_PTX_SYMBOL_MOST];
    FILE *file = path ? fopen(path, "r") : NULL;
    bool is_found = false;
    while (file && !is_found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        is_found = strcmp(line, kernel) == 0;
    }
    if (file)
        fclose(file);
    return is_found;
}

static void try_kernel(const gs_ptx_module *ptx, uint32_t number) {
    static struct kernel kernel;
    char name[GS_PTX_SYMBOL_MOST];
    enum { MOST_NAME = GS_JOB_NAME - 20 };
    if (is_skipped(gs_ptx_token_text(ptx, ptx->functions.data[number].name, name, sizeof name)))
        return;
    if (!read_kernel(&kernel, ptx, number))
        say(&kernel, "left out: large:", "too many parameters");
    else if (kernel.knows_place || strlen(kernel.name) > MOST_NAME)
        say(&kernel,
            "left out: place:", kernel.knows_place ? "reads the number of its SM or of its launch" : "a long name");
    else
        compile_and_try(&kernel);
}

static bool is_approximate(const gs_ptx_module *ptx, uint32_t number) {
    static struct kernel kernel;
    return read_kernel(&kernel, ptx, number) && kernel.is_approximate;
}

/* Tries the approximate kernels of a module with exact instructions. */
static void try_exact(const gs_ptx_module *ptx) {
    gs_error error = {.message = ""};
    gs_ptx_module module;
    gs_text text = ptx_exact(ptx);
    if (gs_ptx_read(&module, all.file, text.data, text.count, &error) != GS_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(2);
    }
    for (size_t i = 0; i < module.functions.count; i++)
        if (module.functions.data[i].is_entry && module.functions.data[i].is_defined &&
            is_approximate(ptx, (uint32_t)i))
            try_kernel(&module, (uint32_t)i);
    gs_ptx_free(&module);
    gs_text_free(&text);
}

/* Writes the module with all forms of all kernels. */
static void write_forms(const gs_ptx_module *module) {
    char path[4096];
    gs_text text = {0};
    gs_text_put(&text, module->text, module->size);
    for (uint32_t i = 0; i < module->functions.count; i++)
        for (int form = GS_FORM_PERSISTENT; form <= GS_FORM_CONFINED && module->functions.data[i].is_entry; form++) {
            gs_ptx_options options = {.form = (enum gs_form)form};
            gs_error error;
            if (module->functions.data[i].is_defined &&
                gs_ptx_reshape(module, i, &options, &text, NULL, &error) == GS_OK)
                printf("%s %u\n", gs_form_name(options.form), i);
        }
    snprintf(path, sizeof path, "%s/%s", all.folder, all.file);
    FILE *file = fopen(path, "w");
    if (!file || fwrite(text.data, 1, text.count, file) != text.count || fclose(file) != 0) {
        fprintf(stderr, "cannot write %s\n", path);
        exit(2);
    }
    gs_text_free(&text);
}

static void try_file(const char *path) {
    gs_error error = {.message = ""};
    gs_ptx_module module;
    char *text;
    size_t size;
    const char *slash = strrchr(path, '/');
    all.file = slash ? slash + 1 : path;
    if (gs_input_all(path, MOST_BYTES, &text, &size, &error) != GS_OK ||
        gs_ptx_read(&module, all.file, text, size, &error) != GS_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(2);
    }
    if (all.folder)
        write_forms(&module);
    else if (all.is_exact)
        try_exact(&module);
    for (size_t i = 0; i < module.functions.count && !all.is_exact && !all.folder; i++)
        if (module.functions.data[i].is_entry && module.functions.data[i].is_defined)
            try_kernel(&module, (uint32_t)i);
    gs_ptx_free(&module);
    free(text);
}

static bool read_recording(const char *path) {
    gs_error error;
    all.has_recording = recording_read(&all.recording, path, &error) == GS_OK;
    if (!all.has_recording)
        fprintf(stderr, "%s\n", error.message);
    return all.has_recording;
}

/* Returns the number of the first file, 0 for wrong options. */
static int read_options(int argc, char **argv) {
    int option;
    while ((option = getopt(argc, argv, "fxa:w:r:")) != -1) {
        all.has_forms = all.has_forms || option == 'f';
        all.is_exact = all.is_exact || option == 'x';
        all.folder = option == 'a' ? optarg : all.folder;
        if (option == '?' || (option == 'w' && !(all.written = fopen(optarg, "w"))) ||
            (option == 'r' && !read_recording(optarg)))
            return 0;
    }
    return optind;
}

int main(int argc, char **argv) {
    gs_error error;
    int first = read_options(argc, argv);
    const char *shown = getenv("GRIDSMITH_SHOWN");
    all.shown = shown ? strtoull(shown, NULL, 10) : 0;
    if (!first)
        return 2;
    all.cpu = gs_executor_open("host", &error);
    if (!all.cpu) {
        fprintf(stderr, "%s\n", error.message);
        return 2;
    }
    if (getenv("GRIDSMITH_ON") && !reopen_gpu())
        return 2;
    for (int i = first; i < argc; i++)
        try_file(argv[i]);
    gs_executor_close(all.cpu);
    gs_executor_close(all.gpu);
    if (all.written)
        fclose(all.written);
    recording_free(&all.recording);
    for (int i = 0; i < MOST_PARAMETERS; i++) {
        free(all.before.buffers[i]);
        free(all.first.buffers[i]);
        free(all.other.buffers[i]);
        free(all.original.buffers[i]);
    }
    return 0;
}
