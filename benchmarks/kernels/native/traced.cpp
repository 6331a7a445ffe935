// Pinocchio's inverse dynamics traced through CasADi and written as C: the code that a user of both would generate.
#include <pinocchio/autodiff/casadi.hpp>

#include <pinocchio/algorithm/rnea.hpp>

#include "arm.hpp"

extern "C" int traced_write(int joints, const double *numbers, const double *gravity, const char *folder)
{
  using Scalar = ::casadi::SX;
  using Vector = Eigen::Matrix<Scalar, Eigen::Dynamic, 1>;
  const pinocchio::ModelTpl<Scalar> model = arm(joints, numbers, gravity).cast<Scalar>();
  pinocchio::DataTpl<Scalar> data(model);
  std::vector<Scalar> symbols;
  std::vector<Vector> given;
  for (const char *name : {"q", "v", "a"})
  {
    symbols.push_back(Scalar::sym(name, joints));
    given.emplace_back(joints);
    pinocchio::casadi::copy(symbols.back(), given.back());
  }
  pinocchio::rnea(model, data, given[0], given[1], given[2]);
  Scalar tau(joints, 1);
  pinocchio::casadi::copy(data.tau, tau);
  const ::casadi::Function function("traced", symbols, ::casadi::SX::cse(std::vector<Scalar>{tau}));
  ::casadi::CodeGenerator generator("traced.c", {{"with_header", false}});
  generator.add(function);
  generator.generate(std::string(folder) + "/");
  return static_cast<int>(function.n_nodes());
}
