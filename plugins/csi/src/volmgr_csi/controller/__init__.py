"""The controller service's part, where no cluster does it: making, growing, deleting and attaching volumes."""
