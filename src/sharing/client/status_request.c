/*
 * status_request.c: asks a daemon for its status.
 */
#include "client.h"

#include <stdlib.h>
#include <unistd.h>

gs_code gs_status_request(const char *socket, char **json, gs_error *error) {
    gs_wire_hello hello = {.magic = GS_WIRE_MAGIC, .version = GS_WIRE_VERSION, .kind = GS_WIRE_STATUS};
    gs_wire_welcome welcome;
    int fd = gs_wire_connect(socket, &hello), file = -1;
    *json = NULL;
    if (fd < 0)
        return gs_fail(error, GS_E_IO, "%s", gs_client_message());
    gs_client_code code = gs_wire_answer(fd, &welcome, &file, 1);
    close(fd);
    if (code != GS_CLIENT_OK || file < 0)
        return gs_fail(error, GS_E_IO, "%s", code != GS_CLIENT_OK ? gs_client_message() : "the daemon sent no status");
    off_t size = lseek(file, 0, SEEK_END);
    char *text = size >= 0 ? malloc((size_t)size + 1) : NULL;
    bool is_read = text && pread(file, text, (size_t)size, 0) == size;
    close(file);
    if (!is_read) {
        free(text);
        return gs_fail(error, GS_E_IO, "the daemon's status cannot be read");
    }
    text[size] = '\0';
    *json = text;
    return GS_OK;
}
