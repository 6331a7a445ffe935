# The public names in the order of the work; `import_lazily` imports each when it is first used.
from mindyn.output.export.controller_payloads import write_payload as write_payload
from mindyn.output.export.sampled_models import write_model_samples as write_model_samples
