/*
 * ptx_host.c: translates PTX to C, so that the CPU runs the code that a GPU would run. See ptx_host.h.
 *
 * A module becomes one C file: its variables as arrays of bytes, its functions as functions, and for each kernel a
 * function that gets the arguments, and a row in the table of kernels (src/kernels/cpu/runtime/gridsmith_run.h). Only
 * the kernels of the build, and the functions and variables that they need, are translated.
 * src/kernels/cpu/runtime/gridsmith_ptx.h has the instructions.
 */
#include "ptx_host.h"

#include <stdlib.h>

enum { MOST_BYTES = 64 << 20, MOST_SHARED = 1 << 20, MOST_LOCAL = 16 << 20, MOST_ALIGN = 1024, TAIL_BYTES = 512 };

/* ---- variables ---- */

static bool check_variable(gs_ptx_host *host, const gs_ptx_variable *variable) {
    uint64_t most = variable->space == GS_PTX_SHARED                                     ? MOST_SHARED
                    : variable->space == GS_PTX_LOCAL || variable->space == GS_PTX_PARAM ? MOST_LOCAL
                                                                                         : MOST_BYTES;
    if (variable->align > MOST_ALIGN || (variable->align & (variable->align - 1)))
        gs_ptx_host_refuse(host, variable->name, "an alignment of %u does not run on the CPU", variable->align);
    else if (variable->bytes > most)
        gs_ptx_host_refuse(host, variable->name, "a variable of %llu bytes does not run on the CPU",
                           (unsigned long long)variable->bytes);
    else
        return true;
    return false;
}

static void put_array(gs_ptx_host *host, uint32_t number, const char *prefix, uint64_t tail) {
    const gs_ptx_variable *variable = &host->module->variables.data[number];
    gs_ptx_put(host, "%s_Alignas(%u) unsigned char v%u[%llu]", prefix, variable->align ? variable->align : 1, number,
               (unsigned long long)((variable->bytes ? variable->bytes : 1) + tail));
}

/* An initializer is numbers, symbols and braces. Numbers go to the bytes of the array; addresses are stored when the
   program starts. */
struct initializer {
    gs_ptx_host *host;
    uint32_t variable, token;
    unsigned char *bytes;
    uint64_t at;
    gs_text *later; /* statements that store addresses */
};

static void store_number(struct initializer *initializer, bool is_negative) {
    const gs_ptx_module *module = initializer->host->module;
    const gs_ptx_variable *variable = &module->variables.data[initializer->variable];
    uint32_t size = gs_ptx_type_bytes(variable->type);
    gs_ptx_operand_kind kind;
    gs_ptx_operand operand = {.first = initializer->token};
    if (!gs_ptx_number(module, initializer->token, &kind, &operand.bits)) {
        gs_ptx_host_refuse(initializer->host, initializer->token, "expected a number");
        return;
    }
    uint64_t bits = operand.bits;
    if (kind == GS_PTX_FLOAT64 && size == 4) {
        double twice;
        memcpy(&twice, &bits, sizeof twice);
        float single = (float)twice;
        uint32_t word;
        memcpy(&word, &single, sizeof word);
        bits = word;
    }
    if (is_negative)
        bits = kind == GS_PTX_INTEGER ? -bits : bits ^ (uint64_t)1 << (8 * gs_min_u64(size, 8) - 1);
    if (initializer->at + size <= variable->bytes)
        memcpy(initializer->bytes + initializer->at, &bits, gs_min_u64(size, sizeof bits));
    initializer->at += size;
}

/* The variable of the module that a token names. */
static uint32_t find_variable(const gs_ptx_module *module, uint32_t token) {
    char name[GS_PTX_NAME];
    gs_ptx_token_text(module, token, name, sizeof name);
    for (size_t i = 0; i < module->variables.count; i++)
        if (module->variables.data[i].function == GS_PTX_NONE &&
            gs_ptx_token_is(module, module->variables.data[i].name, name))
            return (uint32_t)i;
    return GS_PTX_NONE;
}

/* `symbol`, `symbol + 4` or `generic(symbol)`. */
static void store_address(struct initializer *initializer) {
    gs_ptx_host *host = initializer->host;
    const gs_ptx_module *module = host->module;
    const gs_ptx_variable *variable = &module->variables.data[initializer->variable];
    uint32_t size = gs_ptx_type_bytes(variable->type), symbol = initializer->token;
    uint64_t offset = 0;
    gs_ptx_operand_kind kind;
    if (gs_ptx_token_is(module, symbol, "generic") && gs_ptx_punct(module, symbol + 1) == '(') {
        symbol += 2;
        initializer->token = symbol + 1; /* the `)` */
    }
    if (gs_ptx_punct(module, initializer->token + 1) == '+' &&
        gs_ptx_number(module, initializer->token + 2, &kind, &offset))
        initializer->token += 2;
    uint32_t found = symbol < module->tokens.count ? find_variable(module, symbol) : GS_PTX_NONE;
    if (size != 8) {
        gs_ptx_host_refuse(host, symbol, "an address in %u bytes does not run on the CPU", size);
        return;
    }
    gs_ptx_c address =
        found == GS_PTX_NONE ? gs_ptx_function_address(host, symbol) : gs_ptx_variable_address(host, found, offset);
    if (found != GS_PTX_NONE && module->variables.data[found].space == GS_PTX_SHARED)
        gs_ptx_host_refuse(host, symbol, "the address of a shared variable does not run on the CPU here");
    if (initializer->at + size <= variable->bytes)
        gs_text_add(initializer->later, "    ptx_st_u64(v%u + %llu, %s);\n", initializer->variable,
                    (unsigned long long)initializer->at, address.text);
    initializer->at += size;
}

static void read_initializer(struct initializer *initializer) {
    const gs_ptx_module *module = initializer->host->module;
    const gs_ptx_variable *variable = &module->variables.data[initializer->variable];
    bool is_negative = false;
    for (initializer->token = variable->initializer;
         initializer->token <= variable->last && initializer->host->code == GS_OK; initializer->token++) {
        uint8_t kind = module->tokens.data[initializer->token].kind;
        char mark = gs_ptx_punct(module, initializer->token);
        if (kind == GS_PTX_NUMBER)
            store_number(initializer, is_negative);
        else if (kind == GS_PTX_WORD)
            store_address(initializer);
        else if (!mark || !strchr("{},-()", mark))
            gs_ptx_host_refuse(initializer->host, initializer->token, "this initializer does not run on the CPU");
        is_negative = mark == '-';
    }
}

/* A string with an escape for each byte, up to the last that is not 0: compilers read it faster than numbers. */
static void put_bytes(gs_ptx_host *host, const unsigned char *bytes, uint64_t count) {
    while (count && !bytes[count - 1])
        count--;
    if (!count)
        return;
    gs_ptx_put(host, " = \"");
    for (uint64_t i = 0; i < count; i++)
        gs_ptx_put(host, "\\%03o", bytes[i]);
    gs_ptx_put(host, "\"");
}

static void put_variable(gs_ptx_host *host, uint32_t number, gs_text *later) {
    const gs_ptx_variable *variable = &host->module->variables.data[number];
    struct initializer initializer = {.host = host, .variable = number, .later = later};
    if (variable->is_extern || !check_variable(host, variable))
        return; /* extern variables are refused where they are used */
    put_array(host, number, "static ", host->tail_bytes);
    if (variable->initializer != GS_PTX_NONE && variable->bytes) {
        initializer.bytes = calloc(1, variable->bytes);
        if (!initializer.bytes) {
            host->code = gs_fail_memory(host->error);
            return;
        }
        read_initializer(&initializer);
        put_bytes(host, initializer.bytes, variable->bytes);
        free(initializer.bytes);
    }
    gs_ptx_put(host, ";\n");
}

static bool is_in_memory(const gs_ptx_variable *variable) {
    return variable->space == GS_PTX_GLOBAL || variable->space == GS_PTX_CONST || variable->space == GS_PTX_TEX;
}

/* A kernel that reads past the end of a variable finds other bytes in each random order. */
static void put_tails(gs_ptx_host *host) {
    gs_ptx_put(host, "const gs_tail gs_tails[] = {");
    for (uint32_t i = 0; i < host->module->variables.count; i++) {
        const gs_ptx_variable *variable = &host->module->variables.data[i];
        if (is_in_memory(variable) && host->is_used[i] && !variable->is_extern)
            gs_ptx_put(host, "{v%u + %llu, %u}, ", i, (unsigned long long)(variable->bytes ? variable->bytes : 1),
                       host->tail_bytes);
    }
    gs_ptx_put(host, "{0, 0}};\n");
}

static void put_variables(gs_ptx_host *host) {
    gs_text later = {0};
    for (uint32_t i = 0; i < host->module->variables.count && host->code == GS_OK; i++) {
        const gs_ptx_variable *variable = &host->module->variables.data[i];
        if (is_in_memory(variable) && host->is_used[i])
            put_variable(host, i, &later);
        else if (variable->space == GS_PTX_SHARED && host->is_used[i])
            check_variable(host, variable);
    }
    if (host->code == GS_OK)
        put_tails(host);
    if (later.count) {
        gs_ptx_put(host, "\n/* The addresses that variables have at the beginning. */\n"
                         "static __attribute__((constructor)) void store_addresses(void) {\n");
        gs_text_put(host->into, later.data, later.count);
        gs_ptx_put(host, "}\n");
    }
    if (later.failed)
        host->code = gs_fail_memory(host->error);
    gs_text_free(&later);
}

/* ---- functions ---- */

static void put_registers(gs_ptx_host *host, const gs_ptx_function *function) {
    enum { IN_A_LINE = 12 };
    for (uint32_t i = 0; i < function->register_count; i++) {
        gs_ptx_operand operand = {.kind = GS_PTX_REGISTER, .value = i, .first = function->name};
        gs_ptx_type type = gs_ptx_operand_type(host, &operand), before = GS_PTX_NO_TYPE;
        if (i) {
            operand.value = i - 1;
            before = gs_ptx_operand_type(host, &operand);
            operand.value = i;
        }
        bool continues = i % IN_A_LINE && strcmp(gs_ptx_bits_type(before), gs_ptx_bits_type(type)) == 0 &&
                         (type == GS_PTX_PRED) == (before == GS_PTX_PRED);
        if (!continues)
            gs_ptx_put(host, "%s    %s ", i ? ";\n" : "", gs_ptx_bits_type(type));
        gs_ptx_put(host, "%s%s = 0", continues ? ", " : "", gs_ptx_value(host, &operand, type).text);
    }
    gs_ptx_put(host, function->register_count ? ";\n" : "");
}

static void put_locals(gs_ptx_host *host, const gs_ptx_function *function) {
    const gs_ptx_module *module = host->module;
    uint32_t end = function->statements + function->statement_count;
    for (uint32_t i = function->statements; i < end; i++) {
        const gs_ptx_statement *statement = &module->statements.data[i];
        for (uint32_t k = 0; statement->kind == GS_PTX_DECLARATION && k < statement->count; k++) {
            const gs_ptx_variable *variable = &module->variables.data[statement->operands + k];
            if (variable->space == GS_PTX_REG && variable->lanes > 1)
                gs_ptx_host_refuse(host, variable->name, "vector registers do not run on the CPU");
            if ((variable->space != GS_PTX_LOCAL && variable->space != GS_PTX_PARAM) || !check_variable(host, variable))
                continue;
            gs_ptx_put(host, "    ");
            put_array(host, statement->operands + k, "", 0);
            gs_ptx_put(host, ";\n");
        }
    }
}

/* Parameters and results of functions that are registers are copied in and out. */
static void put_copies(gs_ptx_host *host, const gs_ptx_function *function, bool is_result) {
    uint32_t first = is_result ? function->returns : function->parameters;
    uint32_t count = is_result ? function->return_count : function->parameter_count;
    for (uint32_t i = 0; i < count; i++) {
        const gs_ptx_variable *variable = &host->module->variables.data[first + i];
        gs_ptx_operand operand = {.kind = GS_PTX_REGISTER, .value = variable->register_first, .first = variable->name};
        if (variable->space != GS_PTX_REG)
            continue;
        if (variable->type == GS_PTX_PRED || variable->type == GS_PTX_B128 || variable->lanes > 1) {
            gs_ptx_host_refuse(host, variable->name, "a parameter of this type does not run on the CPU");
            return;
        }
        uint32_t bits = gs_ptx_bits(variable->type), number = i + (is_result ? 0 : function->return_count);
        gs_ptx_c name = gs_ptx_value(host, &operand, variable->type);
        if (is_result)
            gs_ptx_put(host, "    ptx_st_u64(io[%u], %s);\n", number, name.text);
        else
            gs_ptx_put(host, "    %s = ptx_ld_u%u(io[%u]);\n", name.text, bits, number);
    }
}

static void put_comment(gs_ptx_host *host, const gs_ptx_function *function) {
    char name[GS_PTX_NAME];
    gs_text_add(host->into, "\n/* %s */\n", gs_ptx_token_text(host->module, function->name, name, sizeof name));
}

static void put_head(gs_ptx_host *host, uint32_t number) {
    bool is_entry = host->module->functions.data[number].is_entry;
    gs_ptx_put(host,
               is_entry ? "static void f%u(gs_ptx_thread *t, unsigned char *P)"
                        : "static void f%u(gs_ptx_thread *t, void **io)",
               number);
}

static void put_function(gs_ptx_host *host, uint32_t number) {
    const gs_ptx_function *function = &host->module->functions.data[number];
    host->function = number;
    host->line = 1;
    host->at = 0;
    host->out_line = 0;
    put_comment(host, function);
    put_head(host, number);
    gs_ptx_put(host, " {\n    uint8_t cc = 0;\n    (void)cc;\n");
    put_registers(host, function);
    put_locals(host, function);
    if (!function->is_entry)
        put_copies(host, function, false);
    gs_ptx_translate_statements(host);
    gs_ptx_put(host, "\ndone:;\n");
    if (!function->is_entry)
        put_copies(host, function, true);
    gs_ptx_put(host, "}\n");
}

/* ---- kernels ---- */

static void put_places(gs_ptx_host *host, uint32_t number, const gs_ptx_function *function) {
    gs_ptx_put(host, "static const gs_ptx_parameter_place places%u[] = {", number);
    for (uint32_t i = 0; i < function->parameter_count; i++)
        gs_ptx_put(host, "{%llu, %llu}, ", (unsigned long long)host->offsets[function->parameters + i],
                   (unsigned long long)host->module->variables.data[function->parameters + i].bytes);
    gs_ptx_put(host, "{0, 0}};\nstatic const unsigned sizes%u[] = {", number);
    for (uint32_t i = 0; i < function->parameter_count; i++)
        gs_ptx_put(host, "%llu, ", (unsigned long long)host->module->variables.data[function->parameters + i].bytes);
    gs_ptx_put(host, "0};\nstatic const unsigned char pointers%u[] = {", number);
    for (uint32_t i = 0; i < function->parameter_count; i++) {
        const gs_ptx_variable *variable = &host->module->variables.data[function->parameters + i];
        gs_ptx_put(host, variable->bytes == 8 && !variable->is_array ? "GS_MAYBE_POINTER, " : "0, ");
    }
    gs_ptx_put(host, "0};\n");
}

/* The shared variables, for functions; the last is the end of them. */
static void put_shared(gs_ptx_host *host, uint32_t number) {
    const struct gs_ptx_shared *shared = &host->shared[number];
    gs_ptx_put(host, "static const gs_ptx_variable_place shared%u[] = {", number);
    for (size_t i = 0; i < shared->count; i++)
        gs_ptx_put(host, "{%u, %llu}, ", shared->data[i].variable, (unsigned long long)shared->data[i].at);
    gs_ptx_put(host, "{0xffffffff, %llu}};\n", (unsigned long long)shared->end);
}

static void put_kernel(gs_ptx_host *host, uint32_t number) {
    const gs_ptx_function *function = &host->module->functions.data[number];
    uint64_t bytes = gs_ptx_parameter_bytes(host, number), shared = gs_ptx_shared_bytes(host, number);
    for (uint32_t i = 0; i < function->parameter_count; i++)
        check_variable(host, &host->module->variables.data[function->parameters + i]);
    if (function->limits.has_cluster_words)
        gs_ptx_host_refuse(host, function->name, "a kernel with clusters does not run on the CPU");
    if (shared > MOST_SHARED)
        gs_ptx_host_refuse(host, function->name, "this kernel needs more shared memory than any GPU has");
    put_places(host, number, function);
    put_shared(host, number);
    gs_ptx_put(host,
               "static void k%u(void **arguments) {\n    _Alignas(%d) unsigned char P[%llu];\n    gs_ptx_thread t;\n"
               "    ptx_begin(&t, source, %llu, P, places%u, %u, arguments);\n    t.variables = shared%u;\n    f%u(&t, "
               "P);\n}\n",
               number, MOST_ALIGN / 8, (unsigned long long)(bytes ? bytes : 1), (unsigned long long)shared, number,
               function->parameter_count, number, number);
}

/* The stack that local variables of all functions take, a few calls deep. */
static uint64_t local_bytes(const gs_ptx_host *host) {
    enum { CALLS = 4 };
    uint64_t bytes = 0;
    for (size_t i = 0; i < host->module->variables.count; i++) {
        const gs_ptx_variable *variable = &host->module->variables.data[i];
        if (host->is_used[i] && (variable->space == GS_PTX_LOCAL || variable->space == GS_PTX_REG))
            bytes += variable->space == GS_PTX_REG ? 8 * (uint64_t)variable->register_count : variable->bytes;
    }
    return bytes * CALLS;
}

/* The name by which callers know a kernel. */
static const char *known_name(const gs_ptx_host *host, const gs_build *build, const gs_ptx_function *function,
                              char *symbol) {
    for (size_t i = 0; i < build->kernel_count && build->known_as; i++)
        if (gs_ptx_token_is(host->module, function->name, build->kernels[i]))
            return build->known_as[i];
    return gs_ptx_token_text(host->module, function->name, symbol, GS_PTX_NAME);
}

static void put_table(gs_ptx_host *host, const gs_build *build) {
    const gs_ptx_module *module = host->module;
    uint32_t count = 0;
    gs_ptx_put(host, "\nconst gs_kernel gs_kernels[] = {\n");
    for (uint32_t i = 0; i < module->functions.count; i++) {
        char name[GS_PTX_NAME];
        const gs_ptx_function *function = &module->functions.data[i];
        if (!function->is_entry || !host->is_needed[i])
            continue;
        gs_ptx_put(host, "    {");
        gs_text_put_json(host->into, known_name(host, build, function, name));
        const uint32_t *most = function->limits.max_threads, *only = function->limits.required_threads;
        gs_ptx_put(host, ", k%u, %u, sizes%u, pointers%u, %llu, %llu, %llu, %llu, {%u, %u, %u}},\n", i,
                   function->parameter_count, i, i, (unsigned long long)gs_ptx_shared_bytes(host, i),
                   (unsigned long long)local_bytes(host), (unsigned long long)host->array_bytes[i],
                   (unsigned long long)most[0] * most[1] * most[2], only[0], only[1], only[2]);
        count++;
    }
    gs_ptx_put(host, "    {0}};\nconst int gs_kernel_count = %u;\n", count);
}

/* ---- the module ---- */

static void put_heads(gs_ptx_host *host) {
    for (uint32_t i = 0; i < host->module->functions.count; i++)
        if (host->is_needed[i]) {
            put_head(host, i);
            gs_ptx_put(host, ";\n");
        }
}

static void translate_module(gs_ptx_host *host, const gs_build *build) {
    const gs_ptx_module *module = host->module;
    gs_ptx_find_needed(host, build);
    gs_ptx_lay_out(host);
    gs_ptx_put(host, "#include \"gridsmith_ptx.h\"\n\nstatic const char source[] = ");
    gs_text_put_json(host->into, build->name);
    gs_ptx_put(host, ";\n\n");
    put_heads(host);
    put_variables(host);
    gs_text_add(host->into, "\n#line 1 ");
    gs_text_put_json(host->into, build->name);
    gs_ptx_put(host, "\n");
    for (uint32_t i = 0; i < module->functions.count && host->code == GS_OK; i++)
        if (host->is_needed[i])
            put_function(host, i);
    gs_ptx_put(host, "\n#line 1 \"the table of kernels\"\n");
    for (uint32_t i = 0; i < module->functions.count && host->code == GS_OK; i++)
        if (host->is_needed[i] && module->functions.data[i].is_entry)
            put_kernel(host, i);
    put_table(host, build);
}

gs_code gs_host_translate_ptx(const gs_build *build, gs_text *into, gs_error *error) {
    gs_ptx_module module;
    gs_code code = gs_ptx_read(&module, build->name, build->text, build->size, error);
    if (code != GS_OK)
        return code;
    gs_ptx_host host = {.module = &module, .into = into, .error = error};
    host.tail_bytes = build->address_sanitizer ? 0 : TAIL_BYTES; /* AddressSanitizer adds its own */
    host.is_needed = calloc(module.functions.count + 1, sizeof *host.is_needed);
    host.is_used = calloc(module.variables.count + 1, sizeof *host.is_used);
    host.offsets = calloc(module.variables.count + 1, sizeof *host.offsets);
    host.shared = calloc(module.functions.count + 1, sizeof *host.shared);
    host.array_bytes = calloc(module.functions.count + 1, sizeof *host.array_bytes);
    if (!host.is_needed || !host.is_used || !host.offsets || !host.shared || !host.array_bytes)
        host.code = gs_fail_memory(error);
    else if (module.address_bits != 64)
        host.code = gs_fail(error, GS_E_UNSUPPORTED, "%s has addresses of %d bits; the CPU runs 64-bit PTX only",
                            build->name, module.address_bits);
    else
        translate_module(&host, build);
    if (host.code == GS_OK && into->failed)
        host.code = gs_fail_memory(error);
    free(host.is_needed);
    free(host.is_used);
    free(host.offsets);
    for (size_t i = 0; host.shared && i < module.functions.count; i++)
        free(host.shared[i].data);
    free(host.shared);
    free(host.array_bytes);
    free(host.labels.data);
    gs_ptx_free(&module);
    return host.code;
}
