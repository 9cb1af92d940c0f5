"""Why a policy acts as it does: attributions, behaviour, what its reward pays for."""
