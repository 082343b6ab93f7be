/*
 * elastic.c: the same kernel with a half or a quarter of the threads, and less shared memory.
 *
 * No rule says which constants of a source determine the size of its blocks, so they are guessed and tried. A guess
 * divides one or two dimensions of the block, and multiplies the grid by the same factor or leaves it as it is. It also
 * divides the constants that are equal to a divided dimension, or to the number of all threads: first those with a
 * name, in the bounds of shared memory, in __launch_bounds__ and in the template arguments of the kernel; then also
 * plain numbers in the code. Each guess runs on the CPU, where a wrong one does no harm. The first one that computes
 * the same as the original is taken.
 *
 * What is known of it is what was tried: with this launch and these inputs it gave the same results. Nothing is proved
 * for others, unlike for the forms of PTX.
 *
 * This form is made of sources, the others of PTX, because only a source still has the constants (docs/reshape.md, "Why
 * not of PTX"). In PTX the size of a block is folded into addresses, the bounds of loops and unrolled code. What a PTX
 * text allows is to let each thread do the work of two; but then a block has the same registers and the same shared
 * memory as before, and those are what a smaller block is for.
 *
 * From top to bottom: the constants of a source, a guess as a variant, the list of guesses (gs_elastic_guess: the zoo
 * knows the numbers of its right ones), and the search for one that is right (gs_verify_elastic).
 */
#include "variant.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_CONSTANTS = 64, MOST_TRIES = 24 };

/* A number in the source that may determine the size of the block. */
struct constant {
    uint32_t token;
    uint32_t value;
    bool is_sizing; /* it has a name, or is in shared memory or in bounds; else a plain number in the code */
};

struct search {
    const gs_source *source;
    const gs_variant *original;
    struct constant constants[MOST_CONSTANTS];
    size_t count;
    uint32_t factor;
};

/* How one guess differs from the original. */
struct guess {
    uint32_t divide[3];
    bool grows_grid, divides_shared;
    enum { NO_CONSTANTS, SIZING_CONSTANTS, ALL_CONSTANTS } constants;
};

/* ---- constants ---- */

static uint32_t number_at(const gs_source *source, uint32_t token) {
    const gs_token *found = &source->tokens.data[token];
    char text[12] = "", *end;
    if (found->kind != GS_TOKEN_NUMBER || found->length >= sizeof text)
        return 0;
    memcpy(text, source->text + found->at, found->length);
    unsigned long value = strtoul(text, &end, 0);
    while (*end == 'u' || *end == 'U' || *end == 'l' || *end == 'L')
        end++;
    return *end || value > 65536 ? 0 : (uint32_t)value;
}

static uint32_t threads_of(const uint32_t block[3]) {
    return block[0] * block[1] * block[2];
}

static bool is_a_size(const gs_variant *original, uint32_t value) {
    return value > 1 && (value == original->block[0] || value == original->block[1] || value == original->block[2] ||
                         value == threads_of(original->block));
}

/* `#define NAME 16`, or `NAME = 16` of a constant, an enumerator or a template parameter. */
static bool is_defined(const gs_source *source, uint32_t token) {
    uint32_t directive = source->tokens.data[token].directive;
    if (directive != GS_NO_TOKEN)
        return gs_token_is(source, directive + 1, "define") && token >= directive + 3;
    return token >= 2 && gs_token_is(source, token - 1, "=") && source->tokens.data[token - 2].kind == GS_TOKEN_NAME;
}

/* Between brackets of a declaration of shared memory, or in __launch_bounds__. */
static bool is_a_bound(const gs_source *source, uint32_t token) {
    for (uint32_t i = token; i-- > 0;) {
        char c = source->tokens.data[i].punctuation;
        if (gs_token_is(source, i, "__shared__") || gs_token_is(source, i, "__launch_bounds__"))
            return true;
        if (c == ';' || c == '{' || c == '}' || source->tokens.data[i].directive != GS_NO_TOKEN)
            return false;
    }
    return false;
}

static void find_constants(struct search *search) {
    const gs_source *source = search->source;
    for (uint32_t i = 0; i < source->tokens.count && search->count < MOST_CONSTANTS; i++) {
        uint32_t value = number_at(source, i), directive = source->tokens.data[i].directive;
        bool is_included = directive != GS_NO_TOKEN && gs_token_is(source, directive + 1, "include");
        if (!is_included && is_a_size(search->original, value))
            search->constants[search->count++] =
                (struct constant){i, value, is_defined(source, i) || is_a_bound(source, i)};
    }
}

/* The divisor of a number: that of the dimension it is equal to, or of the number of all threads. */
static uint32_t divisor_of(const struct search *search, const struct guess *guess, uint32_t value) {
    const uint32_t *block = search->original->block;
    uint32_t divisor = 1;
    for (int i = 0; i < 3; i++)
        if (block[i] == value && guess->divide[i] > divisor)
            divisor = guess->divide[i];
    if (divisor == 1 && value == threads_of(block))
        divisor = search->factor;
    return value % divisor ? 1 : divisor;
}

/* ---- a guess as a variant ---- */

/* Template arguments of the kernel that are sizes: reduce<256> becomes reduce<128>. */
static void divide_name(const struct search *search, const struct guess *guess, const char *name, char *into,
                        size_t size) {
    gs_text text = {0};
    const char *at = name;
    bool in_arguments = false;
    while (*at) {
        char *end;
        bool begins = in_arguments && *at >= '1' && *at <= '9' && (at[-1] == '<' || at[-1] == ',' || at[-1] == ' ');
        unsigned long value = begins ? strtoul(at, &end, 10) : 0;
        in_arguments |= *at == '<';
        if (begins && is_a_size(search->original, (uint32_t)value) && guess->constants != NO_CONSTANTS) {
            gs_text_add(&text, "%lu", value / divisor_of(search, guess, (uint32_t)value));
            at = end;
        } else {
            gs_text_put(&text, at++, 1);
        }
    }
    snprintf(into, size, "%s", text.data ? text.data : "");
    gs_text_free(&text);
}

static void describe(const struct search *search, const struct guess *guess, gs_variant *variant) {
    gs_text words = {0};
    gs_text_add(&words, "block [%u, %u, %u], grid [%u, %u, %u]", variant->block[0], variant->block[1],
                variant->block[2], variant->grid[0], variant->grid[1], variant->grid[2]);
    if (search->original->shared_bytes)
        gs_text_add(&words, ", %zu bytes of shared memory", variant->shared_bytes);
    for (size_t i = 0; i < search->count; i++) {
        const struct constant *constant = &search->constants[i];
        gs_error place = {.code = GS_OK};
        if (guess->constants == NO_CONSTANTS || (!constant->is_sizing && guess->constants != ALL_CONSTANTS))
            continue;
        uint32_t divisor = divisor_of(search, guess, constant->value);
        gs_error_place(&place, search->source->text, search->source->size,
                       search->source->tokens.data[constant->token].at, 1, 1);
        if (divisor > 1)
            gs_text_add(&words, ", line %ld: %u for %u", place.line, constant->value / divisor, constant->value);
    }
    snprintf(variant->words, sizeof variant->words, "%s", words.data ? words.data : "");
    gs_text_free(&words);
}

static bool make_variant(const struct search *search, const struct guess *guess, gs_variant *variant) {
    const char *kernel = search->original->kernel;
    gs_edits edits = {0};
    const gs_source *source = search->source;
    *variant = *search->original;
    variant->text = (gs_text){0};
    variant->form = GS_FORM_ELASTIC;
    for (int i = 0; i < 3; i++) {
        variant->block[i] /= guess->divide[i];
        variant->grid[i] *= guess->grows_grid ? guess->divide[i] : 1;
    }
    variant->shared_bytes /= guess->divides_shared ? search->factor : 1;
    divide_name(search, guess, kernel, variant->kernel, sizeof variant->kernel);
    for (size_t i = 0; i < search->count && guess->constants != NO_CONSTANTS; i++) {
        const struct constant *constant = &search->constants[i];
        const gs_token *token = &source->tokens.data[constant->token];
        uint32_t divisor = divisor_of(search, guess, constant->value);
        if (divisor > 1 && (constant->is_sizing || guess->constants == ALL_CONSTANTS))
            gs_edits_add(&edits, token->at, token->length, "%u", constant->value / divisor);
    }
    describe(search, guess, variant);
    gs_text_add(&variant->text,
                "// %s with 1/%u of the threads, by gridsmith; launch it with %s.\n"
                "// It was found by trying: on other inputs and with other launches it may compute something else.\n"
                "#line 1 ",
                kernel, search->factor, variant->words);
    gs_text_put_json(&variant->text, source->name);
    gs_text_put(&variant->text, "\n", 1);
    bool done = gs_edits_apply(&edits, source->text, 0, source->size, &variant->text);
    gs_edits_free(&edits);
    return done;
}

/* ---- the search ---- */

static bool divides(const gs_variant *original, const struct guess *guess) {
    for (int i = 0; i < 3; i++)
        if (original->block[i] % guess->divide[i])
            return false;
    return true;
}

/* Runs a guess. True: it computes the same as the original. */
static bool is_right(gs_verify_run *original, gs_variant *variant) {
    gs_verify_run run = {
        .executor = original->executor, .launch = original->launch, .options = original->options, .variant = variant};
    gs_error ignored;
    size_t argument, element;
    bool right = gs_verify_run_compile(&run, &(gs_source){.name = "a guess"}, &ignored) == GS_OK &&
                 gs_verify_run_execute(&run, &ignored) == GS_OK &&
                 gs_verify_runs_agree(original, &run, original->options->tolerance, &ignored, &argument, &element);
    run.variant = NULL;
    gs_verify_run_free(&run);
    return right;
}

/* Whether the guess changes a constant; if not, it is the same as one without constants. */
static bool changes_constants(const struct search *search, const struct guess *guess, const char *kernel) {
    char name[GS_JOB_NAME];
    for (size_t i = 0; i < search->count; i++)
        if (divisor_of(search, guess, search->constants[i].value) > 1 &&
            (guess->constants == ALL_CONSTANTS) == !search->constants[i].is_sizing)
            return true;
    divide_name(search, guess, kernel, name, sizeof name);
    return guess->constants == SIZING_CONSTANTS && strcmp(name, kernel) != 0;
}

/* Guess number `number`. Guesses are tried in this order, the likeliest first. False: this guess does not apply
   here. */
static bool decode(const struct search *search, uint32_t number, struct guess *guess) {
    static const struct guess orders[] = {
        {.grows_grid = true, .constants = SIZING_CONSTANTS},  {.grows_grid = true, .constants = NO_CONSTANTS},
        {.grows_grid = false, .constants = SIZING_CONSTANTS}, {.grows_grid = false, .constants = NO_CONSTANTS},
        {.grows_grid = true, .constants = ALL_CONSTANTS},     {.grows_grid = false, .constants = ALL_CONSTANTS}};
    const uint32_t factor = search->factor, shapes[][3] = {{factor, 1, 1}, {1, factor, 1}, {2, 2, 1}, {1, 1, factor}};
    const uint32_t shape = number / 2 % 4;
    size_t shared_bytes = search->original->shared_bytes;
    *guess = orders[number / 8 % GS_COUNT(orders)];
    guess->divides_shared = number % 2 == 0;
    memcpy(guess->divide, shapes[shape], sizeof guess->divide);
    return (shape != 2 || factor == 4) && divides(search->original, guess) &&
           (!guess->divides_shared || (shared_bytes && shared_bytes % factor == 0)) &&
           (guess->constants == NO_CONSTANTS || changes_constants(search, guess, search->original->kernel));
}

bool gs_elastic_guess(const gs_source *source, uint32_t factor, uint32_t number, gs_variant *variant) {
    const gs_variant original = *variant;
    struct search search = {.source = source, .original = &original, .factor = factor};
    struct guess guess;
    find_constants(&search);
    if (number >= GS_ELASTIC_GUESSES || !decode(&search, number, &guess))
        return false;
    if (make_variant(&search, &guess, variant))
        return true;
    gs_text_free(&variant->text);
    return false;
}

/* Searches for a variant with 1/`factor` of the threads that computes the same as `original`, which has run on the CPU.
   The caller frees variant->text if there is one. */
static bool find_variant(gs_verify_run *original, const gs_source *source, uint32_t factor, gs_variant *variant) {
    int tries = 0;
    for (uint32_t number = 0; number < GS_ELASTIC_GUESSES && tries < MOST_TRIES; number++) {
        *variant = gs_variant_original(original->launch, original->options->kernel);
        if (!gs_elastic_guess(source, factor, number, variant))
            continue;
        tries++;
        if (is_right(original, variant))
            return true;
        gs_text_free(&variant->text);
    }
    return false;
}

/* Searches for a variant on the CPU, and tries the one it finds on the executor. */
static gs_code verify_factor(gs_verify_run *original, gs_executor *executor, const gs_source *source, uint32_t factor,
                             gs_verify_result *result, gs_text *text, gs_error *error) {
    gs_variant variant;
    gs_code code = GS_OK;
    bool is_same = true;
    if (!find_variant(original, source, factor, &variant))
        return GS_OK;
    if (text && !text->count)
        gs_text_put(text, variant.text.data, variant.text.count);
    char words[sizeof variant.words + 60];
    snprintf(words, sizeof words, "%s1/%u of the threads: %s", result->reason.message[0] ? "; " : "", factor,
             variant.words);
    if (executor == original->executor) {
        gs_text_free(&variant.text);
        result->verdict = GS_VERDICT_SAME;
    } else {
        gs_verify_result there = *result;
        code = gs_verify_variant(executor, source, original->launch, original->options, &variant, &there, error);
        result->verdict = code == GS_OK && there.verdict == GS_VERDICT_SAME ? GS_VERDICT_SAME : result->verdict;
        result->original_ns = there.original_ns;
        result->reshaped_ns = there.reshaped_ns;
        is_same = there.verdict == GS_VERDICT_SAME;
    }
    if (is_same)
        gs_verify_add_words(&result->reason, words);
    return code;
}

gs_code gs_verify_elastic(gs_executor *executor, const gs_source *source, const gs_launch_file *launch,
                          const gs_verify_options *options, uint32_t factor, gs_text *text, gs_verify_result *result,
                          gs_error *error) {
    bool is_host = strcmp(executor->ops->name, "host") == 0;
    gs_variant plain = gs_variant_original(launch, options->kernel);
    gs_verify_run original = {.executor = is_host ? executor : gs_executor_host(error),
                              .launch = launch,
                              .options = options,
                              .variant = &plain};
    *result = (gs_verify_result){.verdict = GS_VERDICT_REFUSED};
    if (!original.executor)
        return error->code;
    gs_code code = gs_verify_run_compile(&original, source, error);
    if (code == GS_OK)
        code = gs_verify_run_execute(&original, error);
    for (uint32_t by = 2; by <= 4 && code == GS_OK; by *= 2)
        if (!factor || factor == by)
            code = verify_factor(&original, executor, source, by, result, text, error);
    if (code == GS_OK && result->verdict == GS_VERDICT_REFUSED)
        gs_fail(&result->reason, GS_E_REFUSED,
                "no constants were found with which fewer threads compute the same results in this launch");
    gs_verify_run_free(&original);
    if (!is_host)
        gs_executor_close(original.executor);
    return code;
}
