// Pinocchio in C++, instantiated here so that the compiler may use all of this CPU: loops over row-major samples.
#include <pinocchio/algorithm/aba-derivatives.hpp>
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/regressor.hpp>
#include <pinocchio/algorithm/rnea-derivatives.hpp>
#include <pinocchio/algorithm/rnea.hpp>

#include <algorithm>
#include <vector>

#include "arm.hpp"

namespace
{
using Row = Eigen::Map<const Eigen::VectorXd>;
struct Peer
{
  ArmModel model;
  ArmData data;
  std::vector<int> columns;  // of the standard regressor that are the base regressor
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> base;
  explicit Peer(const ArmModel &arm) : model(arm), data(arm) {}
};

Row row(const double *array, long k, int n) { return Row(array + k * n, n); }

void forward_dynamics(void *handle, const double *q, const double *v, const double *tau, double *a, long count,
                      pinocchio::Convention convention)
{
  Peer &peer = *static_cast<Peer *>(handle);
  const int n = peer.model.nv;
  for (long k = 0; k < count; ++k)
    Eigen::Map<Eigen::VectorXd>(a + k * n, n) =
      pinocchio::aba(peer.model, peer.data, row(q, k, n), row(v, k, n), row(tau, k, n), convention);
}

// Only the last matrix is written out (upper triangle): the peer is timed for its arithmetic alone.
void inertia_matrix(void *handle, const double *q, double *M, long count, pinocchio::Convention convention)
{
  Peer &peer = *static_cast<Peer *>(handle);
  const int n = peer.model.nv;
  for (long k = 0; k < count; ++k)
    pinocchio::crba(peer.model, peer.data, row(q, k, n), convention);
  Eigen::Map<Eigen::MatrixXd>(M, n, n) = peer.data.M;
}
}  // namespace

extern "C"
{
  void *peer_make(int joints, const double *numbers, const double *gravity)
  {
    return new Peer(arm<ArmModel>(joints, numbers, gravity));
  }

  void peer_rnea(void *handle, const double *q, const double *v, const double *a, double *tau, long count)
  {
    Peer &peer = *static_cast<Peer *>(handle);
    const int n = peer.model.nv;
    for (long k = 0; k < count; ++k)
      Eigen::Map<Eigen::VectorXd>(tau + k * n, n) =
        pinocchio::rnea(peer.model, peer.data, row(q, k, n), row(v, k, n), row(a, k, n));
  }

  // Pinocchio computes in local or in world frames; which is faster depends on the arm, so both are timed.
  void peer_aba(void *handle, const double *q, const double *v, const double *tau, double *a, long count)
  {
    forward_dynamics(handle, q, v, tau, a, count, pinocchio::Convention::LOCAL);
  }

  void peer_aba_world(void *handle, const double *q, const double *v, const double *tau, double *a, long count)
  {
    forward_dynamics(handle, q, v, tau, a, count, pinocchio::Convention::WORLD);
  }

  void peer_crba(void *handle, const double *q, const double *, const double *, double *M, long count)
  {
    inertia_matrix(handle, q, M, count, pinocchio::Convention::LOCAL);
  }

  void peer_crba_world(void *handle, const double *q, const double *, const double *, double *M, long count)
  {
    inertia_matrix(handle, q, M, count, pinocchio::Convention::WORLD);
  }

  void peer_regressor(void *handle, const double *q, const double *v, const double *a, double *Y, long count)
  {
    Peer &peer = *static_cast<Peer *>(handle);
    const int n = peer.model.nv;
    for (long k = 0; k < count; ++k)
      pinocchio::computeJointTorqueRegressor(peer.model, peer.data, row(q, k, n), row(v, k, n), row(a, k, n));
    Eigen::Map<Eigen::MatrixXd>(Y, n, 10 * n) = peer.data.jointTorqueRegressor;
  }

  void peer_choose(void *handle, const int *columns, int count)
  {
    Peer &peer = *static_cast<Peer *>(handle);
    peer.columns.assign(columns, columns + count);
    peer.base.resize(peer.model.nv, count);
  }

  // The standard regressor, of which the chosen columns are taken.
  void peer_base_regressor(void *handle, const double *q, const double *v, const double *a, double *Y, long count)
  {
    Peer &peer = *static_cast<Peer *>(handle);
    const int n = peer.model.nv;
    for (long k = 0; k < count; ++k)
    {
      pinocchio::computeJointTorqueRegressor(peer.model, peer.data, row(q, k, n), row(v, k, n), row(a, k, n));
      for (std::size_t c = 0; c < peer.columns.size(); ++c)
        peer.base.col(static_cast<Eigen::Index>(c)) = peer.data.jointTorqueRegressor.col(peer.columns[c]);
    }
    std::copy(peer.base.data(), peer.base.data() + peer.base.size(), Y);
  }

  // By q, qd and qdd (the inertia matrix, upper triangle); only the last sample is written out.
  void peer_rnea_derivatives(void *handle, const double *q, const double *v, const double *a, double *J, long count)
  {
    Peer &peer = *static_cast<Peer *>(handle);
    const int n = peer.model.nv;
    for (long k = 0; k < count; ++k)
      pinocchio::computeRNEADerivatives(peer.model, peer.data, row(q, k, n), row(v, k, n), row(a, k, n));
    Eigen::Map<Eigen::MatrixXd>(J, n, n) = peer.data.dtau_dq;
    Eigen::Map<Eigen::MatrixXd>(J + n * n, n, n) = peer.data.dtau_dv;
    Eigen::Map<Eigen::MatrixXd>(J + 2 * n * n, n, n) = peer.data.M;
  }

  // By q, qd and tau (the inverse of the inertia matrix, upper triangle).
  void peer_aba_derivatives(void *handle, const double *q, const double *v, const double *tau, double *J, long count)
  {
    Peer &peer = *static_cast<Peer *>(handle);
    const int n = peer.model.nv;
    for (long k = 0; k < count; ++k)
      pinocchio::computeABADerivatives(peer.model, peer.data, row(q, k, n), row(v, k, n), row(tau, k, n));
    Eigen::Map<Eigen::MatrixXd>(J, n, n) = peer.data.ddq_dq;
    Eigen::Map<Eigen::MatrixXd>(J + n * n, n, n) = peer.data.ddq_dv;
    Eigen::Map<Eigen::MatrixXd>(J + 2 * n * n, n, n) = peer.data.Minv;
  }
}
