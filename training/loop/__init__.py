"""The training loop: optimizer steps, schedules, validation, snapshots and exact resumes."""
