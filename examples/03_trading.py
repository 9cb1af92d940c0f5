"""Trade one symbol of a synthetic market: make, step, plot. Run: python examples/03_trading.py"""

import gymnasium
import matplotlib.image

import pacesetter as ps
import pacesetter.envs  # registers the environments

panel = ps.load("synthetic", symbols=5, bars=1200, seed=7)
env = gymnasium.make("pacesetter/Trading-v0", panel=panel, symbol="S2", starts="fixed", render_mode="rgb_array")
trend = env.unwrapped.names["regime"].index("regime_momentum_long")
seen, info = env.reset(seed=0)
print({entry: values.shape for entry, values in seen.items()})

total, is_over = 0.0, False
while not is_over:  # buy while the long momentum is up, sell everything once it turns
    order = 2 if seen["regime"][trend] > 0.3 else 5 if seen["regime"][trend] < 0 else 0
    seen, reward, terminated, truncated, info = env.step(order)
    total, is_over = total + reward, terminated or truncated

print(f"reward {total:+.4f}: the log growth of equity to {info['equity']:,.2f}; truncated: {truncated}")
matplotlib.image.imsave("trading.png", env.render())
print("picture: trading.png; ledger and fills:", env.unwrapped.journal.save("episode"))
