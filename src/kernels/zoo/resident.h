/* resident.h: instances whose memory is on the GPU, for this room only. See resident.c. */
#ifndef GS_ZOO_RESIDENT_H
#define GS_ZOO_RESIDENT_H

#include "play.h"

gs_code gs_zoo_pace_wait(gs_zoo_pace *pace, gs_error *error);

/* Makes the inputs, copies them to the GPU, and compiles. At large sizes the kernels are compared with the reference at
   the small size. GS_E_KERNEL: a result is wrong. The caller frees the instance, also after an error. */
gs_code gs_zoo_resident_make(gs_zoo_resident *resident, const gs_zoo_kernel *kernel, const gs_zoo_size *size,
                             gs_zoo_pace *pace, gs_error *error);
/* The same for the kernel of another resident, whose modules it uses. */
gs_code gs_zoo_resident_make_again(gs_zoo_resident *resident, const gs_zoo_resident *other, const gs_zoo_size *size,
                                   gs_zoo_pace *pace, gs_error *error);
/* Starts the launches; and before them, where results are to be compared, the copies that restore the inputs. */
gs_code gs_zoo_resident_run(gs_zoo_resident *resident, gs_zoo_pace *pace, gs_error *error);
gs_code gs_zoo_resident_restore(gs_zoo_resident *resident, gs_zoo_pace *pace, gs_error *error);
/* The results become the expected ones; the results are compared with these (GS_E_KERNEL: they differ). Both wait. */
gs_code gs_zoo_resident_keep(gs_zoo_resident *resident, gs_app_stream *stream, gs_error *error);
gs_code gs_zoo_resident_check(gs_zoo_resident *resident, gs_app_stream *stream, gs_error *error);

#endif
