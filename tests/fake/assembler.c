/*
 * assembler.c: libnvJitLink.so.13 of the pretended driver. It leaves PTX as it is, which the pretended driver loads.
 *
 * In its report a kernel has 32 registers, but a confined one 40, unless it is limited.
 */
#include "ptx/ptx.h"

#include <stdlib.h>

#define CALL __attribute__((visibility("default"))) int

typedef struct link {
    char *text;
    size_t size;
    gs_text report;
} link;

CALL nvJitLinkCreate(link **made, uint32_t count, const char **options);
CALL nvJitLinkDestroy(link **made);
CALL nvJitLinkAddData(link *made, int kind, const void *bytes, size_t size, const char *name);
CALL nvJitLinkComplete(link *made);
CALL nvJitLinkGetLinkedCubinSize(link *made, size_t *size);
CALL nvJitLinkGetLinkedCubin(link *made, void *image);
CALL nvJitLinkGetErrorLogSize(link *made, size_t *size);
CALL nvJitLinkGetErrorLog(link *made, char *log);
CALL nvJitLinkGetInfoLogSize(link *made, size_t *size);
CALL nvJitLinkGetInfoLog(link *made, char *log);

int nvJitLinkCreate(link **made, uint32_t count, const char **options) {
    *made = count && strncmp(options[0], "-arch=sm_", 9) == 0 ? calloc(1, sizeof **made) : NULL;
    return *made ? 0 : 1;
}

int nvJitLinkDestroy(link **made) {
    free((*made)->text);
    gs_text_free(&(*made)->report);
    free(*made);
    *made = NULL;
    return 0;
}

int nvJitLinkAddData(link *made, int kind, const void *bytes, size_t size, const char *name) {
    (void)name;
    made->text = kind == 2 ? strndup(bytes, size) : NULL;
    made->size = size;
    return made->text ? 0 : 1;
}

int nvJitLinkComplete(link *made) {
    gs_ptx_entries entries;
    if (!gs_ptx_entries_list(made->text, &entries))
        return 1;
    for (size_t i = 0; i < entries.count; i++) {
        bool is_confined = strstr(entries.data[i], "__confined") != NULL;
        const char *head = strstr(made->text, entries.data[i]), *body = head ? strchr(head, '{') : NULL;
        const char *limit = head ? strstr(head, ".maxnreg") : NULL;
        gs_text_add(&made->report, "ptxas info : Compiling entry function '%s' for 'sm_90'\n", entries.data[i]);
        gs_text_add(&made->report, "ptxas info : Used %d registers, used 1 barriers\n",
                    is_confined && !(limit && limit < body) ? 40 : 32);
    }
    gs_ptx_entries_free(&entries);
    return 0;
}

int nvJitLinkGetLinkedCubinSize(link *made, size_t *size) {
    *size = made->size + 1;
    return 0;
}

int nvJitLinkGetLinkedCubin(link *made, void *image) {
    memcpy(image, made->text, made->size + 1);
    return 0;
}

int nvJitLinkGetErrorLogSize(link *made, size_t *size) {
    (void)made;
    *size = 0;
    return 0;
}

int nvJitLinkGetErrorLog(link *made, char *log) {
    (void)made, (void)log;
    return 1;
}

int nvJitLinkGetInfoLogSize(link *made, size_t *size) {
    *size = made->report.count + 1;
    return 0;
}

int nvJitLinkGetInfoLog(link *made, char *log) {
    memcpy(log, made->report.data ? made->report.data : "", made->report.count + 1);
    return 0;
}
