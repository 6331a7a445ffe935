"""Train a small network on the residual of the identified model with PyTorch: torque = model + network.

Needs `pip install 'mindyn[torch]'`. The arm has a load-dependent gear ripple that no rigid model describes. The
network alone, with the same data and size, has large errors outside its training range.
"""

import numpy as np

import mindyn

try:
    import torch

    from mindyn.kernels.torch import make_differentiable
except (ImportError, mindyn.MindynError):
    print("this example needs PyTorch: pip install 'mindyn[torch]'")
    raise SystemExit from None

torch.manual_seed(0)
torch.set_num_threads(1)
robot = mindyn.load_robot("planar2")
rng = np.random.default_rng(0)


def simulate_motion(count, reach):
    """Return motion and torque of the arm, with gear ripple and noise."""
    q, qd, qdd = reach * rng.uniform(-1, 1, (3, count, 2))
    rigid = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)
    return q, qd, qdd, rigid * (1 + 0.05 * np.sin(8 * q)) + rng.normal(0, 0.5, q.shape)


q, qd, qdd, tau = simulate_motion(3000, 1.5)
samples = mindyn.Samples(robot.joint_names, q, qd, qdd, tau, 100.0, np.zeros(len(q), int))
feasible = mindyn.make_feasible(mindyn.LeastSquares().fit(mindyn.build_rows(robot, samples)))
dynamics = make_differentiable(mindyn.compile_model(mindyn.build_full_model(feasible), with_drives=True))


def network():
    layers = [torch.nn.Linear(12, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2)]
    return torch.nn.Sequential(*layers).double()


def features(q, qd, qdd):
    return torch.cat([torch.sin(q), torch.cos(q), torch.sin(8 * q), torch.cos(8 * q), qd, qdd], dim=-1)


def train(net, predict, data):
    """Train with Adam on the squared error; gradients pass through the kernels that `predict` calls."""
    *motion, target = (torch.tensor(item) for item in data)
    scale = target.std(0)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(200):
        optimizer.zero_grad()
        loss = ((predict(net, *motion) - target) / scale).square().mean()
        loss.backward()
        optimizer.step()
    return net


def alone(net, q, qd, qdd):
    return 1000 * net(features(q, qd, qdd))


def on_top(net, q, qd, qdd):
    model = dynamics.inverse_dynamics(q, qd, qdd)
    return model * (1 + 0.1 * net(features(q, qd, qdd)))


data = (q, qd, qdd, tau)
*motion, truth = (torch.tensor(array) for array in simulate_motion(2000, 2.5))  # outside the training range
nets = {"network alone": (alone, train(network(), alone, data)), "on top": (on_top, train(network(), on_top, data))}
errors = {"model alone": dynamics.inverse_dynamics(*motion)}
errors |= {name: predict(net, *motion).detach() for name, (predict, net) in nets.items()}
for name, predicted in errors.items():
    print(f"{name:14} {100 * float((predicted - truth).norm() / truth.norm()):6.2f} % of the torque unexplained")
