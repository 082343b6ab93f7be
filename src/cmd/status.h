/* status.h: shared by 'status' and 'top'; see status.c. */
#ifndef GS_CMD_STATUS_H
#define GS_CMD_STATUS_H

#include "base/base.h"

/* The status of the daemon, as text and parsed. The caller frees both; NULL: see the error. */
json_t *gs_status_get(const char *socket, char **text, gs_error *error);
/* What the daemon says of the command of this name. NULL: not known. */
const json_t *gs_status_choice(const json_t *status, const char *name);
/* A table. Rates are since `before`; NULL: since each client, program or the daemon was started. */
void gs_put_status(gs_text *text, const json_t *status, const json_t *before);

#endif
