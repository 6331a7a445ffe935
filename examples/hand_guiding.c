/* Gravity compensation and hand guiding on the C that mindyn exports.
 *
 * Build it with the exported code, whose functions have the prefix arm_:
 *
 *     mindyn export run1 --to c --out arm.c --prefix arm_
 *     cc -O2 -shared -fPIC hand_guiding.c arm.c -lm -o hand_guiding.so
 *
 * Call hand_guiding once per control cycle and command tau. The drives must apply the commanded torque at the joints.
 * The holding torque is that of the arm and of the payload in the estimate: with another payload the arm moves by
 * itself. Try it first with a low torque limit, near the floor, with the emergency stop within reach. */
#include <math.h>

#include "arm.h"

#define N ARM_JOINT_COUNT

/* Part of the friction that is compensated. Below 1, the rest brakes the arm and holds it when you let go; friction of
 * a warm robot is lower than in the logs. */
static const double COMPENSATED = 0.7;
/* Speed above which friction is compensated, rad/s or m/s: at rest its sign is unknown. */
static const double SLOW = 0.05;
/* Speed above which the program brakes, rad/s or m/s. */
static const double FAST = 1.0;
/* Braking torque per speed above FAST, as a multiple of the inertia of the joint, 1/s. */
static const double BRAKING = 10.0;

/* Friction at a speed: the part of the torque that changes sign with it. Coriolis torque does not. */
static void friction(const double *q, const double *qd, double *torque)
{
    double back[N], forward_torque[N], back_torque[N], rest[N] = {0};
    int i;
    for (i = 0; i < N; i++)
        back[i] = -qd[i];
    arm_inverse_dynamics(q, qd, rest, forward_torque);
    arm_inverse_dynamics(q, back, rest, back_torque);
    for (i = 0; i < N; i++)
        torque[i] = 0.5 * (forward_torque[i] - back_torque[i]);
}

/* q [N] positions, qd [N] velocities, limit [N] largest torques, tau [N] torque to command; SI units.
 * Returns 0, or 1 with zero torque if an input is not finite. */
int hand_guiding(const double *q, const double *qd, const double *limit, double *tau)
{
    double rubbing[N], M[N * N];
    int i, is_finite = 1;
    for (i = 0; i < N; i++)
        is_finite = is_finite && isfinite(q[i]) && isfinite(qd[i]);
    for (i = 0; i < N && !is_finite; i++)
        tau[i] = 0.0;
    if (!is_finite)
        return 1;
    arm_gravity(q, tau);
    arm_inertia_matrix(q, M);
    friction(q, qd, rubbing);
    for (i = 0; i < N; i++) {
        const double excess = fabs(qd[i]) > FAST ? qd[i] - copysign(FAST, qd[i]) : 0.0;
        tau[i] += COMPENSATED * fabs(tanh(qd[i] / SLOW)) * rubbing[i] - BRAKING * M[i * N + i] * excess;
        tau[i] = fmax(-limit[i], fmin(limit[i], tau[i]));
    }
    return 0;
}
