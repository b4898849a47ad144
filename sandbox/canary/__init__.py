"""Programs whose verdict is known, run before anything is paid for: cheats that must not pass and golds that must."""
