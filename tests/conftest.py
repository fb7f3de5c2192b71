"""What every test may use: the folder of tests on the path, so that builders import by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
