/*
 * search_alone.c: one kernel: its duration as written, and the fewest workers that each of its forms needs (ISPA 6.2).
 *
 * A form is measured with all workers that fit. Then the fewest workers that are as fast are found by bisection, in at
 * most BISECTIONS measurements. A form that takes FORM_COST longer than the best is not used (ISPA 6.3, step 1).
 *
 * The first form is also measured on a half of the SMs. If it keeps more than KEPT of its rate there, it is bound by
 * something that all SMs share, and it is measured on a quarter, too: such kernels profit from split SMs.
 */
#include "search_state.h"

#include <math.h>

enum { BISECTIONS = 4 };
static const char TOO_LARGE[] = "a block exceeds the resources of an SM of this GPU";
static const double AS_FAST = 1.01, KEPT = 0.6;
static const double FORM_COST = 2; /* a form that takes longer gains nothing, even if its partner took no time */

static gs_measurement measurement_alone(int32_t kernel, int32_t form, int32_t workers) {
    return (gs_measurement){
        .measure = GS_MEASURE_ALONE,
        .sides = {{.kernel = kernel, .form = form, .workers = workers, .repeats = 1, .percent = 100}}};
}

/* ---- times of a form ---- */

static void add_point(gs_found_form *form, int32_t workers, double us) {
    int32_t at = form->point_count;
    if (at == GS_SEARCH_POINTS)
        return;
    for (; at > 0 && form->points[at - 1].workers > workers; at--)
        form->points[at] = form->points[at - 1];
    form->points[at].workers = workers;
    form->points[at].us = us;
    form->point_count++;
}

/* The duration with fewer workers than were measured. At worst the rate is proportional to the workers. At best the
   time is a + b / workers, from the two points with the fewest workers: each worker hides some latency of the others.
   The result is between the two. */
static double below_points(const gs_found_form *form, int32_t workers) {
    double first = form->points[0].us, at = form->points[0].workers, worst = first * at / workers;
    if (form->point_count < 2)
        return worst;
    double slope = (first - form->points[1].us) / (1 / at - 1.0 / form->points[1].workers);
    double best = first + fmax(0, slope) * (1.0 / workers - 1 / at);
    return sqrt(worst * fmin(best, worst));
}

/* Between two points the rate is linear. */
double gs_found_us(const gs_found_form *form, int32_t workers) {
    int32_t before = 0, i = 0;
    double rate = 0;
    if (form->point_count && workers < form->points[0].workers)
        return below_points(form, workers);
    for (; i < form->point_count && form->points[i].workers < workers; i++) {
        before = form->points[i].workers;
        rate = 1 / form->points[i].us;
    }
    if (i == form->point_count)
        return form->point_count ? form->points[i - 1].us : 0;
    double part = (double)(workers - before) / (form->points[i].workers - before);
    return 1 / (rate + (1 / form->points[i].us - rate) * part);
}

double gs_found_best_us(const gs_found_kernel *found) {
    double us = found->forms[found->form].best_us;
    return found->written_us > 0 && found->written_us < us ? found->written_us : us;
}

double gs_pair_ratio(const gs_found_kernel *const found[2], const gs_measurement *measurement) {
    double loads[2];
    for (int i = 0; i < 2; i++)
        loads[i] = gs_found_best_us(found[i]) * measurement->sides[i].repeats;
    return loads[1] / loads[0];
}

/* ---- the measurements ---- */

/* False: the walk ends here. A failure becomes the kernel's problem. */
static bool ask_duration(gs_walk *walk, const gs_measurement *measurement, gs_found_kernel *found, double *us) {
    const gs_measure_result *measured = gs_walk_ask(walk, measurement);
    if (!measured)
        return false;
    *us = measured->us;
    if (measured->is_failed || !(measured->us > 0)) {
        *us = 0;
        memcpy(found->problem, measured->reason, sizeof found->problem);
    }
    return true;
}

static bool bisect_workers(gs_walk *walk, gs_found_kernel *found, int32_t kernel, int32_t number) {
    gs_found_form *form = &found->forms[number];
    int32_t slow = 0;
    double limit_us = form->points[0].us * AS_FAST;
    form->best = form->most;
    form->best_us = form->points[0].us;
    for (int i = 0; i < BISECTIONS && form->best - slow > 1; i++) {
        int32_t middle = (slow + form->best) / 2;
        gs_measurement measurement = measurement_alone(kernel, number, middle);
        double us;
        if (!ask_duration(walk, &measurement, found, &us))
            return false;
        if (found->problem[0])
            return true;
        add_point(form, middle, us);
        if (us <= limit_us) {
            form->best = middle;
            form->best_us = us;
        } else {
            slow = middle;
        }
    }
    return true;
}

/* If another form than the first fails, it is not used; this is not a problem of the kernel. */
static bool search_form(gs_walk *walk, gs_room_fit *fit, const gs_pair_search_kernel *given, gs_found_kernel *found,
                        int32_t kernel, int32_t number) {
    gs_found_form *form = &found->forms[number];
    double us = 0;
    form->most = gs_room_fit_alone(fit, &given->forms[number]);
    if (!form->most) {
        if (number == 0)
            snprintf(found->problem, sizeof found->problem, "%s", TOO_LARGE);
        return true;
    }
    gs_measurement measurement = measurement_alone(kernel, number, form->most);
    if (!ask_duration(walk, &measurement, found, &us))
        return false;
    if (us > 0)
        add_point(form, form->most, us);
    if (us > 0 && !bisect_workers(walk, found, kernel, number))
        return false;
    form->is_used = !found->problem[0];
    if (number > 0)
        found->problem[0] = '\0';
    return true;
}

static void choose_forms(gs_found_kernel *found) {
    for (int32_t i = 1; i < GS_SEARCH_FORMS; i++)
        if (found->forms[i].is_used && found->forms[i].best_us < found->forms[found->form].best_us)
            found->form = i;
    for (int32_t i = 0; i < GS_SEARCH_FORMS; i++)
        if (found->forms[i].best_us > FORM_COST * gs_found_best_us(found))
            found->forms[i].is_used = false;
}

static bool ask_parts(gs_walk *walk, gs_found_kernel *found, int32_t kernel, int32_t sms) {
    gs_measurement measurement = measurement_alone(kernel, 0, found->forms[0].most);
    double all_us = found->forms[0].points[found->forms[0].point_count - 1].us;
    measurement.sides[0].sms = sms / 2;
    if (sms < 4)
        return true;
    if (!ask_duration(walk, &measurement, found, &found->half_us))
        return false;
    if (found->problem[0] || all_us < KEPT * found->half_us)
        return true;
    measurement.sides[0].sms = sms / 4;
    return ask_duration(walk, &measurement, found, &found->quarter_us);
}

/* The slowdown with three quarters of its registers. */
static bool ask_fewer_registers(gs_walk *walk, const gs_pair_search_kernel *given, gs_found_kernel *found,
                                int32_t kernel) {
    enum { STEP = 8, FEWEST = 24 };
    const gs_found_form *form = &found->forms[0];
    int32_t had = given->forms[0].registers, limit = (had * 3 / 4 + STEP - 1) / STEP * STEP;
    gs_measurement measurement = measurement_alone(kernel, 0, form->best);
    measurement.sides[0].registers = limit;
    found->keeps_registers = given->keeps_registers || limit < FEWEST || limit >= had;
    if (found->keeps_registers)
        return true;
    const gs_measure_result *measured = gs_walk_ask(walk, &measurement);
    if (!measured)
        return false;
    found->keeps_registers = measured->is_failed;
    found->spills = measured->us > form->best_us ? (measured->us / form->best_us - 1) / (1 - (double)limit / had) : 0;
    return true;
}

static bool ask_grids(gs_walk *walk, gs_found_kernel *found, int32_t kernel) {
    static const int32_t parts[GS_SEARCH_GRIDS] = {25, 50, 70, 90, 100}; /* at different positions in a wave */
    for (size_t i = 0; i < GS_COUNT(parts) && !found->problem[0]; i++) {
        gs_measurement measurement = measurement_alone(kernel, found->form, found->forms[found->form].best);
        double us;
        measurement.sides[0].percent = parts[i];
        if (!ask_duration(walk, &measurement, found, &us))
            return false;
        found->grids[found->grid_count].percent = parts[i];
        found->grids[found->grid_count++].us = us;
    }
    return true;
}

/* Of a black box only the shape is known. */
static void take_black_box(gs_room_fit *fit, const gs_pair_search_kernel *given, gs_found_kernel *found) {
    gs_found_form *form = &found->forms[0];
    found->written_us = form->best_us = given->known_us;
    form->most = form->best = gs_room_fit_alone(fit, &given->forms[0]);
    if (!form->most)
        snprintf(found->problem, sizeof found->problem, "%s", TOO_LARGE);
}

static bool search_forms(gs_walk *walk, gs_room_fit *fit, const gs_pair_search_kernel *given, int32_t kernel,
                         gs_found_kernel *found) {
    gs_measurement written = measurement_alone(kernel, 0, 0);
    written.measure = GS_MEASURE_WRITTEN;
    if (!ask_duration(walk, &written, found, &found->written_us))
        return false;
    for (int32_t i = 0; i < GS_SEARCH_FORMS && !found->problem[0]; i++)
        if (given->has_form[i] && !search_form(walk, fit, given, found, kernel, i))
            return false;
    if (!found->problem[0])
        choose_forms(found);
    return true;
}

bool gs_pair_search_alone(gs_walk *walk, gs_room_fit *fit, const gs_pair_search_kernel *given, int32_t kernel,
                          const gs_pair_search_options *options, int32_t sms, gs_found_kernel *found) {
    *found = (gs_found_kernel){.is_done = false};
    memcpy(found->problem, given->problem, sizeof found->problem);
    if (given->is_black_box && !found->problem[0])
        take_black_box(fit, given, found);
    bool is_measured = !given->is_black_box && !found->problem[0];
    if (is_measured && !search_forms(walk, fit, given, kernel, found))
        return false;
    is_measured = is_measured && !found->problem[0];
    if (is_measured && !ask_fewer_registers(walk, given, found, kernel))
        return false;
    if (is_measured && !ask_parts(walk, found, kernel, sms))
        return false;
    if (is_measured && options->models && !ask_grids(walk, found, kernel))
        return false;
    found->measurements = walk->asked;
    found->is_done = true;
    return true;
}
