/* status.h: what 'status' and 'top' share; see status.c. */
#ifndef GS_CMD_STATUS_H
#define GS_CMD_STATUS_H

#include "base/base.h"

/* The status of the daemon, as text and parsed. The caller frees both; NULL: the error says why. */
json_t *gs_status_get(const char *socket, char **text, gs_error *error);
/* A table. Rates are since `before`; NULL: since the daemon was started. */
void gs_print_status(const json_t *status, const json_t *before);

#endif
