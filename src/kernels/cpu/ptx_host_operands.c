/*
 * ptx_host_operands.c: operands of PTX as C expressions. See ptx_host.h.
 *
 * Registers are C variables named after their width and number: p1 (a predicate), b2, h3, w4, d5 and q6 (8 to 128
 * bits). A variable in memory is an array of bytes: v7, by its number. Parameters of kernels lie in one array, P; those
 * of functions are reached by the array of pointers io.
 */
#include "ptx_host.h"

#include <stdarg.h>
#include <stdlib.h>

/* ---- failures and text ---- */

void gs_ptx_host_refuse(gs_ptx_host *host, uint32_t token, const char *format, ...) {
    char message[300];
    va_list arguments;
    if (host->code != GS_OK)
        return;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    host->code = gs_ptx_fail(host->module, token, host->error, GS_E_UNSUPPORTED, "%s", message);
}

void gs_ptx_host_refuse_instruction(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    char word[120];
    gs_ptx_token_text(host->module, instruction->statement->word, word, sizeof word);
    gs_ptx_host_refuse(host, instruction->statement->word, "%s does not run on the CPU", word);
}

void gs_ptx_put(gs_ptx_host *host, const char *format, ...) {
    char text[4 * GS_PTX_EXPRESSION];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof text)
        gs_ptx_host_refuse(host, GS_PTX_NONE, "an instruction is too long");
    else
        gs_text_put(host->into, text, (size_t)length);
}

static gs_ptx_c c_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

static gs_ptx_c c_of(const char *format, ...) {
    gs_ptx_c c;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c.text, sizeof c.text, format, arguments);
    va_end(arguments);
    return c;
}

/* ---- types ---- */

static const struct {
    const char *bits, *c;
    bool is_float, is_signed;
    char letter;
} types[] = {
    [GS_PTX_NO_TYPE] = {"uint32_t", "uint32_t", false, false, 'w'},
    [GS_PTX_PRED] = {"uint8_t", "uint8_t", false, false, 'p'},
    [GS_PTX_B8] = {"uint8_t", "uint8_t", false, false, 'b'},
    [GS_PTX_U8] = {"uint8_t", "uint8_t", false, false, 'b'},
    [GS_PTX_S8] = {"uint8_t", "int8_t", false, true, 'b'},
    [GS_PTX_B16] = {"uint16_t", "uint16_t", false, false, 'h'},
    [GS_PTX_U16] = {"uint16_t", "uint16_t", false, false, 'h'},
    [GS_PTX_S16] = {"uint16_t", "int16_t", false, true, 'h'},
    [GS_PTX_F16] = {"uint16_t", "uint16_t", true, false, 'h'},
    [GS_PTX_BF16] = {"uint16_t", "uint16_t", true, false, 'h'},
    [GS_PTX_B32] = {"uint32_t", "uint32_t", false, false, 'w'},
    [GS_PTX_U32] = {"uint32_t", "uint32_t", false, false, 'w'},
    [GS_PTX_S32] = {"uint32_t", "int32_t", false, true, 'w'},
    [GS_PTX_F16X2] = {"uint32_t", "uint32_t", true, false, 'w'},
    [GS_PTX_BF16X2] = {"uint32_t", "uint32_t", true, false, 'w'},
    [GS_PTX_F32] = {"uint32_t", "uint32_t", true, false, 'w'},
    [GS_PTX_B64] = {"uint64_t", "uint64_t", false, false, 'd'},
    [GS_PTX_U64] = {"uint64_t", "uint64_t", false, false, 'd'},
    [GS_PTX_S64] = {"uint64_t", "int64_t", false, true, 'd'},
    [GS_PTX_F64] = {"uint64_t", "uint64_t", true, false, 'd'},
    [GS_PTX_B128] = {"unsigned __int128", "unsigned __int128", false, false, 'q'},
    [GS_PTX_TEXREF] = {"uint64_t", "uint64_t", false, false, 'd'},
    [GS_PTX_SAMPLERREF] = {"uint64_t", "uint64_t", false, false, 'd'},
    [GS_PTX_SURFREF] = {"uint64_t", "uint64_t", false, false, 'd'},
};

const char *gs_ptx_c_type(gs_ptx_type type) {
    return types[type].c;
}

const char *gs_ptx_bits_type(gs_ptx_type type) {
    return types[type].bits;
}

uint32_t gs_ptx_bits(gs_ptx_type type) {
    return type == GS_PTX_PRED ? 1 : 8 * gs_ptx_type_bytes(type);
}

bool gs_ptx_is_float(gs_ptx_type type) {
    return types[type].is_float;
}

bool gs_ptx_is_signed(gs_ptx_type type) {
    return types[type].is_signed;
}

gs_ptx_type gs_ptx_type_of(const char *word) {
    for (gs_ptx_type type = GS_PTX_NO_TYPE + 1; type < GS_COUNT(types); type++)
        if (strcmp(gs_ptx_type_name(type), word) == 0)
            return type;
    return GS_PTX_NO_TYPE;
}

/* ---- the words of an instruction ---- */

bool gs_ptx_word(const gs_ptx_instruction *instruction, const char *word) {
    for (uint32_t i = 1; i < instruction->count; i++)
        if (strcmp(instruction->words[i], word) == 0)
            return true;
    return false;
}

bool gs_ptx_listed(const char *list, const char *word) {
    return gs_ptx_is_listed(list, word, strlen(word));
}

gs_ptx_type gs_ptx_nth_type(const gs_ptx_instruction *instruction, uint32_t n) {
    for (uint32_t i = 1; i < instruction->count; i++) {
        gs_ptx_type type = gs_ptx_type_of(instruction->words[i]);
        if (type != GS_PTX_NO_TYPE && n-- == 0)
            return type;
    }
    return GS_PTX_NO_TYPE;
}

bool gs_ptx_wants(gs_ptx_host *host, const gs_ptx_instruction *instruction, uint32_t least, uint32_t most) {
    if (instruction->operand_count >= least && instruction->operand_count <= most)
        return true;
    gs_ptx_host_refuse(host, instruction->statement->word, "%s must have %u operands here, not %u",
                       instruction->words[0], least, instruction->operand_count);
    return false;
}

/* ---- registers ---- */

gs_ptx_type gs_ptx_operand_type(const gs_ptx_host *host, const gs_ptx_operand *operand) {
    const gs_ptx_function *function = &host->module->functions.data[host->function];
    return operand->kind == GS_PTX_REGISTER && operand->value < function->register_count
               ? gs_ptx_register_type(host->module, host->function, operand->value)
               : GS_PTX_NO_TYPE;
}

static gs_ptx_c register_name(gs_ptx_host *host, const gs_ptx_operand *operand) {
    gs_ptx_type type = gs_ptx_operand_type(host, operand);
    if (type == GS_PTX_NO_TYPE)
        gs_ptx_host_refuse(host, operand->first, "the type of this register is not known");
    if (operand->part)
        gs_ptx_host_refuse(host, operand->first, "parts of vector registers do not run on the CPU");
    return c_of("%c%u", types[type].letter, operand->value);
}

/* `_` */
static bool is_sink(const gs_ptx_host *host, const gs_ptx_operand *operand) {
    return operand->kind == GS_PTX_SYMBOL && operand->value == GS_PTX_NONE &&
           gs_ptx_token_is(host->module, operand->first, "_");
}

gs_ptx_c gs_ptx_target(gs_ptx_host *host, const gs_ptx_operand *operand) {
    if (is_sink(host, operand))
        return c_of("(void)");
    if (operand->kind != GS_PTX_REGISTER) {
        gs_ptx_host_refuse(host, operand->first, "expected a register");
        return c_of("(void)");
    }
    return c_of("%s = ", register_name(host, operand).text);
}

uint32_t gs_ptx_elements(const gs_ptx_operand *operand) {
    return operand->kind == GS_PTX_VECTOR || operand->kind == GS_PTX_LIST ? operand->count : 1;
}

const gs_ptx_operand *gs_ptx_element(const gs_ptx_host *host, const gs_ptx_operand *operand, uint32_t n) {
    bool has_children = operand->kind == GS_PTX_VECTOR || operand->kind == GS_PTX_LIST || operand->kind == GS_PTX_PAIR;
    return has_children ? &host->module->operands.data[operand->children + n] : operand;
}

/* ---- special registers ---- */

/* `%c` stands for the part. */
static const char *const special_texts[GS_PTX_SPECIAL_COUNT] = {
    [GS_PTX_TID] = "t->tid.%c",
    [GS_PTX_NTID] = "t->ntid.%c",
    [GS_PTX_CTAID] = "t->ctaid.%c",
    [GS_PTX_NCTAID] = "t->nctaid.%c",
    [GS_PTX_CLUSTERID] = "t->ctaid.%c",
    [GS_PTX_NCLUSTERID] = "t->nctaid.%c",
    [GS_PTX_CLUSTER_CTAID] = "0u",
    [GS_PTX_CLUSTER_NCTAID] = "1u",
    [GS_PTX_CLUSTER_CTARANK] = "0u",
    [GS_PTX_CLUSTER_NCTARANK] = "1u",
    [GS_PTX_IS_EXPLICIT_CLUSTER] = "0u",
    [GS_PTX_LANEID] = "t->lane",
    [GS_PTX_WARPID] = "t->warp",
    [GS_PTX_NWARPID] = "t->warps",
    [GS_PTX_SMID] = "t->sm",
    [GS_PTX_NSMID] = "gs_host_sms()",
    [GS_PTX_GRIDID] = "0u",
    [GS_PTX_LANEMASK_EQ] = "(1u << t->lane)",
    [GS_PTX_LANEMASK_LE] = "(2u << t->lane) - 1",
    [GS_PTX_LANEMASK_LT] = "(1u << t->lane) - 1",
    [GS_PTX_LANEMASK_GE] = "~((1u << t->lane) - 1)",
    [GS_PTX_LANEMASK_GT] = "~((2u << t->lane) - 1)",
    [GS_PTX_CLOCK] = "(uint32_t)ptx_clock()",
    [GS_PTX_CLOCK_HI] = "(uint32_t)(ptx_clock() >> 32)",
    [GS_PTX_CLOCK64] = "ptx_clock()",
    [GS_PTX_GLOBALTIMER] = "ptx_globaltimer()",
    [GS_PTX_GLOBALTIMER_LO] = "(uint32_t)ptx_globaltimer()",
    [GS_PTX_GLOBALTIMER_HI] = "(uint32_t)(ptx_globaltimer() >> 32)",
    [GS_PTX_ENVREG] = "0u",
    [GS_PTX_PM] = "0u",
    [GS_PTX_TOTAL_SMEM_SIZE] = "(uint32_t)t->shared_bytes",
    [GS_PTX_AGGR_SMEM_SIZE] = "(uint32_t)t->shared_bytes",
    [GS_PTX_DYNAMIC_SMEM_SIZE] = "((uint32_t)t->shared_bytes - t->dynamic)",
    [GS_PTX_RESERVED_SMEM] = "0u",
    [GS_PTX_CURRENT_GRAPH_EXEC] = "0u",
};

static gs_ptx_c special_value(gs_ptx_host *host, const gs_ptx_operand *operand) {
    char name[64];
    gs_ptx_token_text(host->module, operand->first, name, sizeof name);
    const char *text = operand->value < GS_PTX_SPECIAL_COUNT ? special_texts[operand->value] : NULL;
    if (!text) {
        gs_ptx_host_refuse(host, operand->first, "%s is neither a register nor a known special register", name);
        return c_of("0u");
    }
    const char *part = strchr(text, '%');
    if (!part)
        return c_of("%s", text);
    if (operand->part < 'w' || operand->part > 'z')
        gs_ptx_host_refuse(host, operand->first, "%s needs a part, such as .x", name);
    else if (operand->part != 'w')
        return c_of("%.*s%c", (int)(part - text), text, operand->part);
    return c_of("0u");
}

/* ---- values ---- */

static gs_ptx_c integer_constant(uint64_t bits, gs_ptx_type type) {
    uint32_t width = gs_ptx_bits(type);
    if (width == 1)
        return c_of("%d", bits != 0);
    if (width && width < 64)
        bits &= ((uint64_t)1 << width) - 1;
    return c_of(bits > 9 ? "0x%llx%s" : "%llu%s", (unsigned long long)bits, width > 32 ? "ull" : "u");
}

static gs_ptx_c real_constant(gs_ptx_host *host, const gs_ptx_operand *operand, gs_ptx_type type) {
    uint64_t bits = operand->bits;
    uint32_t width = gs_ptx_bits(type);
    float single;
    double twice;
    if (operand->kind == GS_PTX_FLOAT64 && width == 32) {
        memcpy(&twice, &bits, sizeof twice);
        single = (float)twice;
        uint32_t half;
        memcpy(&half, &single, sizeof half);
        bits = half;
    } else if (operand->kind == GS_PTX_FLOAT32 && width == 64) {
        uint32_t half = (uint32_t)bits;
        memcpy(&single, &half, sizeof single);
        twice = (double)single;
        memcpy(&bits, &twice, sizeof bits);
    } else if (width != 32 && width != 64) {
        gs_ptx_host_refuse(host, operand->first, "a floating-point constant of this type does not run on the CPU");
    }
    return integer_constant(bits, type);
}

gs_ptx_c gs_ptx_value(gs_ptx_host *host, const gs_ptx_operand *operand, gs_ptx_type type) {
    switch (operand->kind) {
    case GS_PTX_REGISTER: {
        gs_ptx_c name = register_name(host, operand);
        if (operand->bits)
            return c_of("%s(%s + 0x%llxull)", operand->is_negated ? "!" : "", name.text,
                        (unsigned long long)operand->bits);
        return operand->is_negated ? c_of("!%s", name.text) : name;
    }
    case GS_PTX_SPECIAL:
        return special_value(host, operand);
    case GS_PTX_INTEGER:
        return integer_constant(operand->is_negated ? !operand->bits : operand->bits, type);
    case GS_PTX_FLOAT32:
    case GS_PTX_FLOAT64:
        return real_constant(host, operand, type);
    case GS_PTX_SYMBOL:
        return operand->value == GS_PTX_NONE ? gs_ptx_function_address(host, operand->first)
                                             : gs_ptx_variable_address(host, operand->value, operand->bits);
    default:
        gs_ptx_host_refuse(host, operand->first, "this operand does not run on the CPU");
        return c_of("0u");
    }
}

/* ---- addresses ---- */

gs_ptx_c gs_ptx_function_address(gs_ptx_host *host, uint32_t token) {
    char name[GS_PTX_NAME];
    gs_ptx_token_text(host->module, token, name, sizeof name);
    int function = gs_ptx_find_function(host->module, name);
    if (function < 0 || !host->module->functions.data[function].is_defined) {
        gs_ptx_host_refuse(host, token, "%.100s is not defined in this module", name);
        return c_of("0ull");
    }
    return c_of("ptx_address((void *)f%d)", function);
}

/* The number of a parameter among the results and parameters of its function. */
static uint32_t number_in_io(const gs_ptx_function *function, uint32_t variable) {
    return variable >= function->parameters && variable - function->parameters < function->parameter_count
               ? function->return_count + variable - function->parameters
               : variable - function->returns;
}

static bool is_parameter(const gs_ptx_function *function, uint32_t variable) {
    return variable - function->parameters < function->parameter_count ||
           variable - function->returns < function->return_count;
}

/* A pointer to the first byte of a variable that is not in shared memory. */
static gs_ptx_c variable_pointer(gs_ptx_host *host, uint32_t number) {
    const gs_ptx_variable *variable = &host->module->variables.data[number];
    const gs_ptx_function *function = &host->module->functions.data[host->function];
    if (variable->space == GS_PTX_PARAM && variable->function == host->function && is_parameter(function, number))
        return function->is_entry ? c_of("(P + %llu)", (unsigned long long)host->offsets[number])
                                  : c_of("((unsigned char *)io[%u])", number_in_io(function, number));
    if (variable->is_extern)
        gs_ptx_host_refuse(host, variable->name, "this variable is not defined in this module");
    return c_of("v%u", number);
}

/* In a kernel it is a number; a function looks it up in the table of the kernel that runs. */
static gs_ptx_c shared_address(gs_ptx_host *host, uint32_t number, uint64_t offset) {
    const gs_ptx_variable *variable = &host->module->variables.data[number];
    if (host->module->functions.data[host->function].is_entry) {
        uint64_t at = variable->has_no_size ? gs_ptx_shared_bytes(host, host->function)
                                            : gs_ptx_shared_at(host, host->function, number);
        return c_of("%lluu", (unsigned long long)(at + offset));
    }
    return c_of(variable->has_no_size ? "(ptx_dynamic_at(t, %u) + %llu)" : "(ptx_shared_at(t, %u) + %llu)",
                variable->has_no_size ? variable->align : number, (unsigned long long)offset);
}

gs_ptx_c gs_ptx_variable_address(gs_ptx_host *host, uint32_t number, uint64_t offset) {
    const gs_ptx_variable *variable = &host->module->variables.data[number];
    if (variable->space == GS_PTX_SHARED)
        return shared_address(host, number, offset);
    if (variable->space == GS_PTX_REG) {
        gs_ptx_host_refuse(host, variable->name, "this register has no address");
        return c_of("0ull");
    }
    gs_ptx_c pointer = variable_pointer(host, number);
    return offset ? c_of("(ptx_address(%s) + 0x%llxull)", pointer.text, (unsigned long long)offset)
                  : c_of("ptx_address(%s)", pointer.text);
}

gs_ptx_space gs_ptx_space_of(const gs_ptx_instruction *instruction) {
    static const struct {
        const char *word;
        gs_ptx_space space;
    } spaces[] = {{"global", GS_PTX_GLOBAL},      {"const", GS_PTX_CONST},        {"shared", GS_PTX_SHARED},
                  {"shared::cta", GS_PTX_SHARED}, {"local", GS_PTX_LOCAL},        {"shared::cluster", GS_PTX_SHARED},
                  {"param", GS_PTX_PARAM},        {"param::entry", GS_PTX_PARAM}, {"param::func", GS_PTX_PARAM}};
    for (uint32_t i = 1; i < instruction->count; i++)
        for (size_t k = 0; k < GS_COUNT(spaces); k++)
            if (strcmp(instruction->words[i], spaces[k].word) == 0)
                return spaces[k].space;
    return GS_PTX_REG;
}

gs_ptx_c gs_ptx_address_number(gs_ptx_host *host, const gs_ptx_operand *operand, gs_ptx_space space) {
    bool is_address = operand->kind == GS_PTX_ADDRESS && operand->count == 1;
    const gs_ptx_operand *inner = is_address ? &host->module->operands.data[operand->children] : operand;
    if (!is_address && operand->kind == GS_PTX_ADDRESS) {
        gs_ptx_host_refuse(host, operand->first, "this address does not run on the CPU");
        return c_of("0u");
    }
    if (inner->kind != GS_PTX_REGISTER)
        return gs_ptx_value(host, inner, GS_PTX_U64);
    gs_ptx_operand plain = *inner;
    uint32_t width = gs_ptx_bits(gs_ptx_operand_type(host, inner));
    plain.bits = 0;
    gs_ptx_c name = gs_ptx_value(host, &plain, GS_PTX_U64);
    if (width != 64 && space != GS_PTX_SHARED)
        gs_ptx_host_refuse(host, inner->first, "an address of %u bits does not run on the CPU", width);
    if (!inner->bits)
        return name;
    if (width == 64)
        return c_of("%s + 0x%llxull", name.text, (unsigned long long)inner->bits);
    return c_of("(uint32_t)(%s + 0x%xu)", name.text, (unsigned)inner->bits);
}

gs_ptx_c gs_ptx_pointer(gs_ptx_host *host, const gs_ptx_instruction *instruction, const gs_ptx_operand *operand,
                        gs_ptx_space space, uint32_t bytes) {
    const gs_ptx_operand *inner =
        operand->kind == GS_PTX_ADDRESS && operand->count ? &host->module->operands.data[operand->children] : operand;
    if (inner->kind == GS_PTX_SYMBOL && inner->value != GS_PTX_NONE && operand->kind == GS_PTX_ADDRESS &&
        operand->count == 1) {
        const gs_ptx_variable *variable = &host->module->variables.data[inner->value];
        if (variable->space != GS_PTX_SHARED && variable->space != GS_PTX_REG)
            return c_of("(%s + 0x%llxull)", variable_pointer(host, inner->value).text, (unsigned long long)inner->bits);
        space = variable->space; /* a generic access of a shared variable */
    }
    gs_ptx_c number = gs_ptx_address_number(host, operand, space);
    return c_of("%s(t, %s, %u, %u)", space == GS_PTX_SHARED ? "ptx_shared" : "ptx_at", number.text, bytes,
                instruction->line);
}
