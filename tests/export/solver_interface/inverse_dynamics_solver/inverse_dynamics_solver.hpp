// Declarations of the public interface inverse_dynamics_solver::InverseDynamicsSolver as its documentation states them,
// so that a generated plugin compiles without ROS 2. Written from that documentation; not the interface's own header.
#pragma once

#include <Eigen/Core>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>

namespace rclcpp::node_interfaces {
struct NodeParametersInterface {
  using ConstSharedPtr = std::shared_ptr<const NodeParametersInterface>;
};
}  // namespace rclcpp::node_interfaces

namespace inverse_dynamics_solver {

class InverseDynamicsSolver {
 public:
  virtual ~InverseDynamicsSolver() = default;
  virtual void initialize(rclcpp::node_interfaces::NodeParametersInterface::ConstSharedPtr = nullptr,
                          const std::string & = "", const std::string & = "") = 0;
  virtual std::tuple<Eigen::MatrixXd, Eigen::VectorXd, Eigen::VectorXd> getDynamicParameters(
      const Eigen::VectorXd &q, const Eigen::VectorXd &qd) const
  {
    return std::make_tuple(getInertiaMatrix(q), getCoriolisVector(q, qd), getGravityVector(q));
  }
  virtual Eigen::MatrixXd getInertiaMatrix(const Eigen::VectorXd &) const = 0;
  virtual Eigen::VectorXd getCoriolisVector(const Eigen::VectorXd &, const Eigen::VectorXd &) const = 0;
  virtual Eigen::VectorXd getGravityVector(const Eigen::VectorXd &) const = 0;
  virtual Eigen::VectorXd getFrictionVector(const Eigen::VectorXd &) const = 0;
  virtual Eigen::VectorXd getTorques(const Eigen::VectorXd &q, const Eigen::VectorXd &qd,
                                     const Eigen::VectorXd &qdd) const
  {
    const auto [M, c, g] = getDynamicParameters(q, qd);
    return M * qdd + c + g;
  }

 protected:
  InverseDynamicsSolver() = default;
};

}  // namespace inverse_dynamics_solver
