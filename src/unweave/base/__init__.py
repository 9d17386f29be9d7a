"""What any library needs: settings, schedules, errors, registries, files, seeds. Nothing here knows what a code is."""
